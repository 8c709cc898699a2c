#include "core/ir/random_tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "core/ir/index_range.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

void FillRandomly(int64_t least, int64_t values, std::mt19937_64& rng, Tensor* tensor) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int64_t> uniform(least, least + values - 1);
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    if (IsFloating(tensor->dtype())) {
      tensor->Set(i, normal(rng));
    } else {
      tensor->SetInt(i, uniform(rng));
    }
  }
}

// Returns the least and the greatest integer of a magnitude, within the type.
std::pair<int64_t, int64_t> IntegersOf(Magnitude magnitude, DType dtype) {
  const int bits = static_cast<int>(8 * DTypeSize(dtype));
  const int64_t most = IsUnsigned(dtype) ? (bits == 64 ? -1 : (int64_t{1} << bits) - 1)
                                         : static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  const int64_t least = IsUnsigned(dtype) ? 0 : -most - 1;
  const auto within = [&](int64_t size) {
    const int64_t greatest = most < 0 ? size : std::min(size, most);
    return std::pair(IsUnsigned(dtype) ? 0 : std::max(-size, least), greatest);
  };
  switch (magnitude) {
    case Magnitude::kSmall: return {0, 1};
    case Magnitude::kOrdinary: return within(8);
    case Magnitude::kLarge: return within(1000);
    case Magnitude::kExtreme: break;
  }
  return {least, most};
}

double ScaleOf(Magnitude magnitude, DType dtype) {
  constexpr double kOfHalf[] = {0x1p-4, 1, 32, 32752}, kOfOthers[] = {0x1p-10, 1, 0x1p10, 0x1p20};
  return (dtype == DType::kFloat16 ? kOfHalf : kOfOthers)[static_cast<size_t>(magnitude)];
}

void FillStressed(Magnitude magnitude, std::mt19937_64& rng, Tensor* tensor) {
  const DType dtype = tensor->dtype();
  if (IsFloating(dtype)) {
    const double scale = ScaleOf(magnitude, dtype);
    std::uniform_real_distribution<double> uniform(1, 2);
    for (int64_t i = 0; i < tensor->num_elements(); ++i) {
      tensor->Set(i, (rng() % 2 == 0 ? 1 : -1) * scale * uniform(rng));
    }
    return;
  }
  const auto [least, most] = IntegersOf(IsInteger(dtype) ? magnitude : Magnitude::kSmall, dtype);
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    const uint64_t drawn = rng();
    if (magnitude == Magnitude::kExtreme && IsInteger(dtype)) {  // at most two from either end
      const uint64_t step = drawn % 3;
      tensor->SetInt(i, static_cast<int64_t>(drawn % 2 == 0 ? static_cast<uint64_t>(least) + step
                                                            : static_cast<uint64_t>(most) - step));
    } else {
      tensor->SetInt(i, least + static_cast<int64_t>(drawn % static_cast<uint64_t>(most - least + 1)));
    }
  }
}

}  // namespace

Tensor RandomTensor(const TensorType& type, Rng& rng, double low, double high) {
  Tensor tensor(type);
  const int64_t least = IsUnsigned(type.dtype) ? 0 : std::numeric_limits<int64_t>::min();
  const int64_t first = std::max(static_cast<int64_t>(std::ceil(low)), least);
  const int64_t last = std::max(static_cast<int64_t>(std::floor(high)), least);
  if (IsInteger(type.dtype)) CHECK(first <= last) << "no integer in [" << low << ", " << high << "]";
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t bits = rng();
    if (IsFloating(type.dtype)) {
      tensor.Set(i, low + (high - low) * (static_cast<double>(bits >> 11) * 0x1p-53));
    } else if (IsInteger(type.dtype)) {
      const uint64_t count = static_cast<uint64_t>(last - first) + 1;
      const uint64_t offset = static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * count >> 64);
      tensor.SetInt(i, first + static_cast<int64_t>(offset));
    } else {
      tensor.SetInt(i, static_cast<int64_t>(bits >> 63));
    }
  }
  return tensor;
}

int64_t IndexedSize(const Graph& graph, Value input) {
  int64_t size = 0;
  if (!graph.contains(input.node)) return size;
  for (int user : graph.users(graph.index(input.node))) {
    const NodeId id = graph.nodes()[user];
    const Node& node = graph.node(id);
    for (const IndexedAxis& at : IndexedAxes(*node.meaning)) {
      if (node.operands[at.indices] != input) continue;
      const int64_t extent = at.Size(graph, id);
      size = size == 0 ? extent : std::min(size, extent);
    }
  }
  return size;
}

absl::StatusOr<std::vector<Tensor>> RandomInputs(const Graph& graph, uint64_t seed, int64_t least_integer) {
  std::vector<Tensor> tensors;
  for (Value input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    const std::string& name = graph.node(input.node).name;
    std::mt19937_64 rng(seed * 0x9e3779b97f4a7c15u + Fnv1a(name));
    const int64_t indexed = IsInteger(type.dtype) ? IndexedSize(graph, input) : 0;
    ASSIGN_OR_RETURN(Tensor tensor, AllocateTensor(type, absl::StrCat("input ", name)));
    if (indexed > 0) {
      FillRandomly(0, indexed, rng, &tensor);
    } else {
      FillRandomly(least_integer, 2, rng, &tensor);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<std::vector<Tensor>> StressInputs(const Graph& graph, uint64_t seed,
                                                 const std::vector<Magnitude>& magnitudes) {
  CHECK(magnitudes.size() == graph.inputs().size());
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, RandomInputs(graph, seed));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Value input = graph.inputs()[i];
    if (IsInteger(tensors[i].dtype()) && IndexedSize(graph, input) > 0) continue;
    std::mt19937_64 rng(seed * 0x9e3779b97f4a7c15u + Fnv1a(graph.node(input.node).name));
    FillStressed(magnitudes[i], rng, &tensors[i]);
  }
  return tensors;
}

void PutGiven(const Graph& graph, const std::map<std::string, Tensor>& given, std::vector<Tensor>* inputs) {
  for (size_t i = 0; i < inputs->size(); ++i) {
    const auto found = given.find(graph.node(graph.inputs()[i].node).name);
    if (found != given.end() && found->second.type() == (*inputs)[i].type()) (*inputs)[i] = found->second;
  }
}

}  // namespace rewright
