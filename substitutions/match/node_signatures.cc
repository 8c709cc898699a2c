#include "substitutions/match/node_signatures.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "absl/hash/hash.h"
#include "substitutions/match/match_scope.h"

namespace rewright {
namespace {

// Combines two signatures, in this order.
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t mixed = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  return mixed ^ (mixed >> 32);
}

template <typename T>
void Put(const T& value, std::string* text) {
  static_assert(std::is_trivially_copyable_v<T>);
  text->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <typename T>
void Put(const std::vector<T>& values, std::string* text) {
  Put(values.size(), text);
  for (const T& value : values) Put(value, text);
}

void PutType(const TensorType& type, std::string* text) {
  Put(type.dtype, text);
  Put(type.shape, text);
}

std::string Describe(const Node& node) {
  std::string text;
  Put(node.leaf, &text);
  Put(node.op, &text);
  // Names and kinds follow from the operator.
  for (const auto& [name, attr] : node.attrs) {
    std::visit([&](const auto& value) { Put(value, &text); }, attr);
  }
  for (const TensorType& type : node.outputs) PutType(type, &text);
  if (node.leaf == LeafKind::kConstant) {
    text.append(static_cast<const char*>(node.data.data()), static_cast<size_t>(node.data.num_bytes()));
  }
  return text;
}

template <typename At>
std::string DescribeElements(int64_t count, const At& at) {
  constexpr int64_t kBlock = 64;  // without branches inside
  const auto first = count > 0 ? at(0) : 0;
  bool equal = count > 0, positive = count <= kMaxLookedAt, finite = positive;
  for (int64_t begin = 0; begin < count && (equal || positive || finite); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    for (int64_t i = begin; i < end; ++i) {
      const auto element = at(i);
      equal &= element == first;
      positive &= element > 0;
      finite &= element - element == 0;
    }
  }
  std::string text;
  Put(equal, &text);
  if (equal) Put(static_cast<double>(first), &text);
  Put(positive, &text);
  Put(finite, &text);
  return text;
}

}  // namespace

uint64_t NodeSignature(const Node& node) { return absl::HashOf(Describe(node)); }

uint64_t NodeSignatures::Number(const std::string& text) {
  uint64_t number = std::max<uint64_t>(absl::HashOf(text), 1);
  while (texts_.try_emplace(number, text).first->second != text) ++number;
  return number;
}

uint64_t NodeSignatures::Of(const Graph& graph, NodeId id) {
  const size_t at = id;
  if (at >= nodes_.size()) nodes_.resize(graph.arena()->size(), 0);
  if (nodes_[at] == 0) {
    const Node& node = graph.node(id);
    const Tensor* elements = node.leaf == LeafKind::kState ? graph.arena()->KnownElements(id) : nullptr;
    nodes_[at] = Number(Describe(node) + (elements != nullptr ? ElementsOf(*elements) : ""));
  }
  return nodes_[at];
}

uint64_t NodeSignatures::Of(const TensorType& type) {
  std::string text;
  PutType(type, &text);
  return Number(text);
}

const std::string& NodeSignatures::ElementsOf(const Tensor& weight) {
  const auto [it, fresh] = weights_.try_emplace(weight.data());
  if (fresh) {
    it->second = weight.dtype() == DType::kFloat32
                     ? DescribeElements(weight.num_elements(), [at = weight.as<float>()](int64_t i) { return at[i]; })
                     : DescribeElements(weight.num_elements(), [&](int64_t i) { return weight.At(i); });
  }
  return it->second;
}

std::vector<uint64_t> NeighbourhoodSignatures(const Graph& graph, NodeSignatures& signatures, int radius) {
  struct Edge {
    uint32_t user, operand;
    uint64_t number;  // of the operand, and which output of it
  };
  std::vector<Edge> edges;
  std::vector<uint64_t> now(graph.nodes().size());
  std::vector<uint32_t> positions(static_cast<size_t>(graph.arena()->size()));  // by identity; operands come first
  for (size_t i = 0; i < now.size(); ++i) {
    const NodeId id = graph.nodes()[i];
    positions[id] = static_cast<uint32_t>(i);
    now[i] = signatures.Of(graph, id);
    uint64_t number = 0;
    for (Value operand : graph.node(id).operands) {
      edges.push_back({static_cast<uint32_t>(i), positions[operand.node],
                       (number++ << 32) + static_cast<uint64_t>(operand.output)});
    }
  }
  for (const Output& output : graph.outputs()) {
    uint64_t& signature = now[graph.index(output.value.node)];
    signature = Mix(signature, static_cast<uint64_t>(output.value.output));
  }
  std::vector<uint64_t> next;
  for (int round = 0; round < radius; ++round) {
    next = now;
    for (const Edge& edge : edges) {
      next[edge.user] = Mix(next[edge.user], now[edge.operand] + edge.number);
    }
    // A sum, for users have no order.
    for (const Edge& edge : edges) next[edge.operand] += Mix(now[edge.user], ~edge.number);
    std::swap(now, next);
  }
  return now;
}

}  // namespace rewright
