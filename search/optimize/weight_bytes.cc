#include "search/optimize/weight_bytes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace rewright {

int64_t FreeGrowth(const Graph& graph) {
  for (NodeId id : graph.nodes()) {
    for (const TensorType& type : graph.node(id).outputs) {
      if (IsInteger(type.dtype) && BitsOf(type.dtype) <= 16) return 0;
    }
  }
  return kFreeGrowth;
}

int64_t AllowedGrowth(double growth, int64_t before, int64_t free) {
  const double bytes = growth * static_cast<double>(before);
  if (!(bytes < static_cast<double>(std::numeric_limits<int64_t>::max()))) return std::numeric_limits<int64_t>::max();
  return std::max(free, static_cast<int64_t>(bytes));
}

GrowthPrice PriceOfGrowth(double growth, int64_t original, double seconds) {
  // In small files the free bytes count as the share that is allowed.
  const double base = std::max(static_cast<double>(original), static_cast<double>(kFreeGrowth) / growth);
  return {seconds / base, AllowedGrowth(growth, original)};
}

int64_t BytesOfElements(const Graph& graph) {
  int64_t bytes = 0;
  for (NodeId id : graph.nodes()) {
    if (const Tensor* elements = graph.arena()->Elements(id)) bytes += elements->num_bytes();
  }
  return bytes;
}

// The known values that a run reads, and the weights behind them.
class WeightBytes::Count {
 public:
  Count(const Graph& graph, const Graph* original) : graph_(graph), original_(original) {}

  int64_t Bytes() {
    for (NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (!graph_.IsRun(node)) continue;
      needed_.insert(needed_.end(), node.operands.begin(), node.operands.end());
    }
    for (const Output& output : graph_.outputs()) needed_.push_back(output.value);
    while (!needed_.empty()) {
      const Value value = needed_.back();
      needed_.pop_back();
      Need(value);
    }
    return bytes_;
  }

 private:
  void Need(Value value) {
    const Node& node = graph_.node(value.node);
    if (node.leaf == LeafKind::kInput || !graph_.IsKnown(node)) return;
    const bool computed = node.op != nullptr;
    const bool in_file = original_ == nullptr || original_->contains(value.node) || IsMadeOfLittle(value.node);
    if (!computed || !in_file) {
      if (seen_.insert(value).second) bytes_ += graph_.type(value).num_bytes();
      return;
    }
    if (open_.insert(value.node).second) needed_.insert(needed_.end(), node.operands.begin(), node.operands.end());
  }

  // True if the leaves below take no more bytes than are free.
  bool IsMadeOfLittle(NodeId id) {
    const auto [known, fresh] = little_.try_emplace(id, false);
    if (!fresh) return known->second;
    absl::flat_hash_set<NodeId> below = {id};
    std::vector<NodeId> stack = {id};
    int64_t bytes = 0;
    while (!stack.empty() && bytes <= kFreeGrowth) {
      const Node& node = graph_.node(stack.back());
      stack.pop_back();
      if (node.op == nullptr) bytes += node.outputs[0].num_bytes();
      for (Value operand : node.operands) {
        if (below.insert(operand.node).second) stack.push_back(operand.node);
      }
    }
    return little_[id] = bytes <= kFreeGrowth;
  }

  const Graph& graph_;
  const Graph* const original_;
  std::vector<Value> needed_;
  absl::flat_hash_set<Value> seen_;
  absl::flat_hash_set<NodeId> open_;
  absl::flat_hash_map<NodeId, bool> little_;
  int64_t bytes_ = 0;
};

WeightBytes::WeightBytes(const Graph& original)
    : original_(original), original_bytes_(Count(original, nullptr).Bytes()) {}

int64_t WeightBytes::Of(const Graph& graph) const { return Count(graph, &original_).Bytes(); }

}  // namespace rewright
