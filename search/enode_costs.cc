#include "search/enode_costs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace rewright {
namespace {

// An e-node is not free, or a graph could hold any number of them.
constexpr double kLeastCost = 1e-12;
// Ways to compute an operand that are looked at.
constexpr int kMaxMakers = 4;
// Larger constants are weights to a device.
constexpr int64_t kSmallConstant = 16;

}  // namespace

Value ENodeCosts::Leaf(Value representative) {
  const auto [it, fresh] = leaves_.try_emplace(representative);
  if (!fresh) return it->second;
  const Node& node = egraph_.arena()->node(representative.node);
  const TensorType& type = egraph_.arena()->type(representative);
  const std::string name = absl::StrCat(leaves_.size(), ":", type.ToString(), node.weight_only ? "w" : "");
  absl::StatusOr<Value> leaf;
  if (node.leaf == LeafKind::kConstant && type.num_elements() <= kSmallConstant) {
    leaf = scratch_->AddConstant(node.data);
  } else if (node.weight_only) {
    leaf = scratch_->AddWeight(name, Tensor(type));
  } else {
    leaf = scratch_->AddInput(name, type);
  }
  CHECK(leaf.ok()) << leaf.status().ToString();
  return it->second = *leaf;
}

absl::StatusOr<NodeId> ENodeCosts::Copy(NodeId enode, const Value* operand, NodeId maker) {
  leaves_.clear();
  std::vector<Value> operands;
  NodeId made = -1;
  if (operand != nullptr) {
    const Node& node = egraph_.arena()->node(maker);
    for (Value value : node.operands) operands.push_back(Leaf(value));
    const absl::StatusOr<NodeId> copy = scratch_->Add(*node.op, std::exchange(operands, {}), node.attrs);
    if (!copy.ok()) return copy;
    made = *copy;
  }
  const Node& node = egraph_.arena()->node(enode);
  for (Value value : node.operands) {
    if (operand == nullptr || value != *operand) {
      operands.push_back(Leaf(value));
      continue;
    }
    int32_t output = 0;
    while (egraph_.Find(Value{maker, output}) != value) ++output;
    operands.push_back(Value{made, output});
  }
  return scratch_->Add(*node.op, std::move(operands), node.attrs);
}

double ENodeCosts::Total(NodeId copy) {
  const auto [it, fresh] = total_.try_emplace(copy, std::numeric_limits<double>::infinity());
  if (!fresh) return it->second;
  std::vector<Output> outputs;
  const int32_t count = static_cast<int32_t>(scratch_->node(copy).outputs.size());
  for (int32_t k = 0; k < count; ++k) outputs.push_back({{copy, k}, ""});
  std::vector<Value> inputs;
  const Graph view(scratch_, {}, outputs);
  for (NodeId id : view.nodes()) {
    if (view.node(id).leaf == LeafKind::kInput) inputs.push_back({id, 0});
  }
  const absl::StatusOr<GraphCost> cost = costs_.Cost(Graph(scratch_, std::move(inputs), std::move(outputs)));
  if (cost.ok()) it->second = cost->total();
  return it->second;
}

double ENodeCosts::Of(NodeId enode) {
  const Node& node = egraph_.arena()->node(enode);
  if (node.op == nullptr) return kLeastCost;
  const absl::StatusOr<NodeId> copy = Copy(enode, nullptr, -1);
  if (!copy.ok()) return std::numeric_limits<double>::infinity();
  double least = Total(*copy);
  if (node.weight_only) return std::max(least, kLeastCost);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value operand = node.operands[i];
    if (std::find(node.operands.begin(), node.operands.begin() + static_cast<std::ptrdiff_t>(i), operand) !=
        node.operands.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    int looked_at = 0;
    for (NodeId maker : egraph_.Nodes(operand)) {
      const Node& below = egraph_.arena()->node(maker);
      if (below.op == nullptr || below.weight_only || looked_at++ >= kMaxMakers) continue;
      const absl::StatusOr<NodeId> alone = Copy(maker, nullptr, -1);
      const absl::StatusOr<NodeId> both = Copy(enode, &operand, maker);
      if (!alone.ok() || !both.ok()) continue;
      const double added = Total(*both) - Total(*alone);
      if (added < least) least = added;
    }
  }
  return std::max(least, kLeastCost);
}

EGraphProblem ProblemOf(const EGraph& egraph, const std::vector<Value>& roots, ENodeCosts& costs) {
  EGraphProblem result;
  ExtractionProblem& problem = result.problem;
  const auto class_of = [&](Value value) {
    const Value representative = egraph.Find(value);
    const auto [it, fresh] = result.class_numbers.try_emplace(representative, static_cast<int>(result.classes.size()));
    if (fresh) {
      result.classes.push_back(representative);
      problem.makers.emplace_back();
    }
    return it->second;
  };
  for (Value root : roots) problem.roots.push_back(class_of(root));
  // Classes are appended while they are gone through.
  for (size_t c = 0; c < result.classes.size(); ++c) {
    for (NodeId id : egraph.Nodes(result.classes[c])) {
      const auto [it, fresh] = result.node_numbers.try_emplace(id, static_cast<int>(result.nodes.size()));
      problem.makers[c].push_back(it->second);
      if (!fresh) continue;
      result.nodes.push_back(id);
      ExtractionProblem::Node node;
      node.cost = costs.Of(id);
      for (Value operand : egraph.arena()->node(id).operands) node.needs.push_back(class_of(operand));
      const int32_t count = static_cast<int32_t>(egraph.arena()->node(id).outputs.size());
      for (int32_t k = 0; k < count; ++k) node.makes.push_back(class_of(Value{id, k}));
      problem.nodes.push_back(std::move(node));
    }
  }
  return result;
}

}  // namespace rewright
