#include "backends/cpu/fusion.h"

#include <algorithm>
#include <queue>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "backends/cpu/pointwise.h"
#include "backends/group.h"
#include "backends/meaning.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, WeightMode mode) : graph_(graph), mode_(mode), owner_(graph.nodes().size(), -1) {}

  std::vector<FusedGroup> Run() {
    const int count = static_cast<int>(graph_.nodes().size());
    for (int i = 0; i < count; ++i) {
      if (owner_[i] < 0 && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = count - 1; i >= 0; --i) {
      if (owner_[i] >= 0 || !IsRuntime(NodeAt(i))) continue;
      if (CanJoinPointwise(i)) {
        GatherPointwise(i);
      } else {
        FusedGroup group;
        group.kind = OnlyMoves(graph_, NodeAt(i)) ? FusedGroup::Kind::kView : FusedGroup::Kind::kOther;
        AddGroup(std::move(group), {i});
      }
    }
    std::sort(order_.begin(), order_.end());
    std::vector<FusedGroup> sorted;
    for (const auto& [last, index] : order_) sorted.push_back(std::move(groups_[index]));
    return sorted;
  }

 private:
  bool IsConstant(const Node& node) const {
    return graph_.IsKnown(node) && (mode_ == WeightMode::kConstant || node.op == nullptr);
  }
  bool IsRuntime(const Node& node) const { return node.op != nullptr && !IsConstant(node); }
  const Node& NodeAt(int i) const { return graph_.node(graph_.nodes()[i]); }
  NodeId IdAt(int i) const { return graph_.nodes()[i]; }
  bool Escapes(int i) const { return graph_.is_output(Value{IdAt(i), 0}); }

  bool IsAnchor(int i) const {
    const Node& node = NodeAt(i);
    if (!IsRuntime(node) || node.outputs[0].dtype != DType::kFloat32) return false;
    return node.op == ops::Conv2d() || node.op == ops::Matmul();
  }

  bool CanJoinPointwise(int i) const {
    const Node& node = NodeAt(i);
    return IsRuntime(node) && owner_[i] < 0 && IsPointwise(*node.meaning) &&
           CountProgramLeaves(*node.meaning) <= kMaxProgramLeaves && node.outputs[0].num_elements() > 0;
  }

  // `members` are positions in any order; the last in the graph's order is the one whose outputs escape.
  void AddGroup(FusedGroup group, std::vector<int> members) {
    std::sort(members.begin(), members.end());
    const int index = static_cast<int>(groups_.size());
    for (int i : members) owner_[i] = index;
    group.group = MakeGroup(graph_, members);
    order_.emplace_back(members.back(), index);
    groups_.push_back(std::move(group));
  }

  // ---- anchors

  void FuseAnchor(int anchor) {
    FusedGroup group;
    group.kind = NodeAt(anchor).op == ops::Conv2d() ? FusedGroup::Kind::kConv : FusedGroup::Kind::kMatmul;
    std::vector<int> members = {anchor};
    while (!Escapes(members.back())) {
      const std::vector<int>& users = graph_.users(members.back());
      if (users.size() != 1 || owner_[users[0]] >= 0) break;
      const std::optional<EpilogueStep> step = StepOf(group, members.back(), users[0]);
      if (!step) break;
      group.epilogue.push_back(*step);
      members.push_back(users[0]);
    }
    AddGroup(std::move(group), std::move(members));
  }

  // What node `user`, the only reader of node `last`, is as the next step.
  std::optional<EpilogueStep> StepOf(const FusedGroup& group, int last, int user) const {
    const Node& node = NodeAt(user);
    const TensorType& type = NodeAt(last).outputs[0];
    const Value value{IdAt(last), 0};
    if (node.outputs.size() != 1 || node.outputs[0] != type) return std::nullopt;
    if (std::count(node.operands.begin(), node.operands.end(), value) != 1) return std::nullopt;
    const auto at = std::find(node.operands.begin(), node.operands.end(), value) - node.operands.begin();
    EpilogueStep step{.node = IdAt(user), .operand = static_cast<int>(at)};
    const EpilogueStep::Kind before = group.epilogue.empty() ? EpilogueStep::Kind::kNone : group.epilogue.back().kind;
    if (const auto linear = LinearKind(group.kind, before, node, step.operand, type)) {
      step.kind = *linear;
      return step;
    }
    if (before < EpilogueStep::Kind::kResidual && node.op == ops::Add() &&
        graph_.type(node.operands[1 - step.operand]) == type) {
      step.kind = EpilogueStep::Kind::kResidual;
      step.other = node.operands[1 - step.operand];
      return step;
    }
    const std::optional<ActivationFunction> activation = ActivationOf(node);
    if (!activation || Has(group.epilogue, *activation)) return std::nullopt;
    step.kind = EpilogueStep::Kind::kActivation;
    step.activation = *activation;
    return step;
  }

  // Two functions of one kind do not go together: oneDNN 2.6 gives both the parameters of the first.
  static bool Has(const std::vector<EpilogueStep>& epilogue, const ActivationFunction& f) {
    return std::any_of(epilogue.begin(), epilogue.end(), [&](const EpilogueStep& step) {
      return step.kind == EpilogueStep::Kind::kActivation && step.activation.activation == f.activation;
    });
  }

  // The linear step that a node is behind a step of kind `before`, with weights or numbers beside the accumulated
  // value. No two steps become one: that would be algebra.
  std::optional<EpilogueStep::Kind> LinearKind(FusedGroup::Kind anchor, EpilogueStep::Kind before, const Node& node,
                                               int operand, const TensorType& type) const {
    using Kind = EpilogueStep::Kind;
    if (operand != 0 && !node.op->commutative) return std::nullopt;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (static_cast<int>(i) != operand && !IsConstant(graph_.node(node.operands[i].node))) return std::nullopt;
    }
    const bool conv = anchor == FusedGroup::Kind::kConv;
    if (node.op == ops::BatchNorm() && conv && before == Kind::kNone) return Kind::kBatchNorm;
    const bool adds = node.op == ops::Add() || node.op == ops::Sub();
    if (!adds && node.op != ops::Mul()) return std::nullopt;
    if (!IsPerChannel(graph_.type(node.operands[1 - operand]), type, conv ? 1 : type.rank() - 1)) return std::nullopt;
    if (!adds) return before <= Kind::kBias ? std::optional(Kind::kScale) : std::nullopt;
    if (before == Kind::kNone) return Kind::kBias;
    return before == Kind::kScale ? std::optional(Kind::kShift) : std::nullopt;
  }

  // ---- pointwise groups

  void GatherPointwise(int sink) {
    const Shape& shape = NodeAt(sink).outputs[0].shape;
    std::set<int> members = {sink};
    int leaves = CountProgramLeaves(*NodeAt(sink).meaning);
    std::priority_queue<int> candidates;
    auto push_operands = [&](int i) {
      for (Value operand : NodeAt(i).operands) candidates.push(graph_.index(operand.node));
    };
    push_operands(sink);
    while (!candidates.empty()) {
      const int i = candidates.top();
      candidates.pop();
      if (members.count(i) > 0 || !CanJoinPointwise(i) || NodeAt(i).outputs[0].shape != shape || Escapes(i)) continue;
      const std::vector<int>& users = graph_.users(i);
      const bool closed = std::all_of(users.begin(), users.end(),
                                      [&](int user) { return members.count(user) > 0 && ReadsIdentically(user, i); });
      const int more = CountProgramLeaves(*NodeAt(i).meaning);
      if (!closed || leaves + more > kMaxProgramLeaves) continue;
      members.insert(i);
      leaves += more;
      push_operands(i);
    }
    FusedGroup group;
    group.kind = FusedGroup::Kind::kPointwise;
    AddGroup(std::move(group), std::vector<int>(members.begin(), members.end()));
  }

  bool ReadsIdentically(int user, int producer) const {
    const Node& node = NodeAt(user);
    for (const PointwiseRead& read : PointwiseReads(*node.meaning)) {
      const Value operand = node.operands[read.input];
      if (operand.node == IdAt(producer) && !IsIdentityRead(read, graph_.type(operand), node.outputs[0])) return false;
    }
    return true;
  }

  const Graph& graph_;
  const WeightMode mode_;
  std::vector<int> owner_;  // group of each position, -1: none yet
  std::vector<FusedGroup> groups_;
  std::vector<std::pair<int, int>> order_;  // last position, group
};

}  // namespace

std::vector<FusedGroup> FuseGraph(const Graph& graph, WeightMode mode) { return Fuser(graph, mode).Run(); }

}  // namespace rewright::cpu
