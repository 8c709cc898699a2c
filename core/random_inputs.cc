#include "core/random_inputs.h"

#include <algorithm>
#include <random>
#include <string>

#include "core/index_range.h"

namespace rewright {
namespace {

// FNV-1a.
uint64_t HashName(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : name) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

Tensor RandomTensor(const TensorType& type, int64_t least, int64_t values, std::mt19937_64& rng) {
  Tensor tensor(type);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int64_t> uniform(least, least + values - 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (IsFloating(type.dtype)) {
      tensor.Set(i, normal(rng));
    } else {
      tensor.SetInt(i, uniform(rng));
    }
  }
  return tensor;
}

}  // namespace

int64_t IndexedSize(const Graph& graph, Value input) {
  int64_t size = 0;
  if (!graph.contains(input.node)) return size;
  for (int user : graph.users(graph.index(input.node))) {
    const Node& node = graph.node(graph.nodes()[static_cast<size_t>(user)]);
    for (const IndexedAxis& at : IndexedAxes(*node.meaning)) {
      if (node.operands[static_cast<size_t>(at.indices)] != input) continue;
      const TensorType& indexed = graph.type(node.operands[static_cast<size_t>(at.indexed)]);
      const int64_t extent = indexed.shape[static_cast<size_t>(at.axis)];
      size = size == 0 ? extent : std::min(size, extent);
    }
  }
  return size;
}

std::vector<Tensor> RandomInputs(const Graph& graph, uint64_t seed, int64_t least_integer) {
  std::vector<Tensor> tensors;
  for (Value input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    std::mt19937_64 rng(seed * 0x9e3779b97f4a7c15u + HashName(graph.node(input.node).name));
    const int64_t indexed = IsInteger(type.dtype) ? IndexedSize(graph, input) : 0;
    tensors.push_back(indexed > 0 ? RandomTensor(type, 0, indexed, rng) : RandomTensor(type, least_integer, 2, rng));
  }
  return tensors;
}

}  // namespace rewright
