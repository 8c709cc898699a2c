#include "backends/cpu/fusion.h"

#include <algorithm>
#include <set>

#include "backends/cpu/pointwise.h"
#include "backends/fuser.h"
#include "backends/meaning.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

class CpuFuser : private Fuser<FusedGroup> {
 public:
  explicit CpuFuser(const Graph& graph) : Fuser(graph) {}

  std::vector<FusedGroup> Run() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (IsFree(i) && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = num_nodes() - 1; i >= 0; --i) {
      if (!IsFree(i)) continue;
      if (CanJoinPointwise(i)) {
        GatherPointwise(i);
      } else {
        FusedGroup group;
        group.kind = OnlyMoves(graph_, NodeAt(i)) ? FusedGroup::Kind::kView : FusedGroup::Kind::kOther;
        AddGroup(std::move(group), {i});
      }
    }
    return TakeGroups();
  }

 private:
  bool IsAnchor(int i) const {
    const Node& node = NodeAt(i);
    return node.outputs[0].dtype == DType::kFloat32 && (node.op == ops::Conv2d() || node.op == ops::Matmul());
  }

  bool CanJoinPointwise(int i) const {
    const Node& node = NodeAt(i);
    return IsPointwise(*node.meaning) && CountProgramLeaves(*node.meaning) <= kMaxProgramLeaves &&
           node.outputs[0].num_elements() > 0;
  }

  // ---- anchors

  void FuseAnchor(int anchor) {
    FusedGroup group;
    group.kind = NodeAt(anchor).op == ops::Conv2d() ? FusedGroup::Kind::kConv : FusedGroup::Kind::kMatmul;
    std::vector<int> members = Chain(anchor, [&](int last, int next) {
      const std::optional<EpilogueStep> step = StepOf(group, last, next);
      if (step) group.epilogue.push_back(*step);
      return step.has_value();
    });
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
      if (static_cast<int>(i) != operand && !graph_.IsKnown(node.operands[i])) return std::nullopt;
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
    int leaves = CountProgramLeaves(*NodeAt(sink).meaning);
    const std::set<int> members = WithProducers(sink, [&](int i, const std::set<int>&) {
      if (!CanJoinPointwise(i) || NodeAt(i).outputs[0].shape != shape) return false;
      const std::vector<int>& users = graph_.users(i);
      if (!std::all_of(users.begin(), users.end(), [&](int user) { return ReadsIdentically(user, i); })) return false;
      const int more = CountProgramLeaves(*NodeAt(i).meaning);
      if (leaves + more > kMaxProgramLeaves) return false;
      leaves += more;
      return true;
    });
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
};

}  // namespace

std::vector<FusedGroup> FuseGraph(const Graph& graph) { return CpuFuser(graph).Run(); }

}  // namespace rewright::cpu
