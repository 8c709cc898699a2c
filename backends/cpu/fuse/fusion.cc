#include "backends/cpu/fuse/fusion.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "absl/algorithm/container.h"
#include "backends/common/fuser.h"
#include "backends/common/node_access.h"
#include "backends/cpu/codegen/pointwise.h"
#include "backends/cpu/fuse/row_groups.h"
#include "backends/cpu/simd/simd.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// The activation that an operator is, where it is one.
std::optional<ActivationFunction> ActivationOf(const Node& node) {
  static const std::pair<const OpDef*, Activation> plain[] = {
      {ops::Relu(), Activation::kRelu},          {ops::Sigmoid(), Activation::kSigmoid},
      {ops::Tanh(), Activation::kTanh},          {ops::Gelu(), Activation::kGelu},
      {ops::GeluTanh(), Activation::kGeluTanh},  {ops::Swish(), Activation::kSwish},
      {ops::HardSwish(), Activation::kHardSwish}};
  for (const auto& [op, activation] : plain) {
    if (node.op == op) return ActivationFunction{activation};
  }
  if (node.op == ops::LeakyRelu()) return ActivationFunction{Activation::kRelu, Real(node, "alpha")};
  if (node.op == ops::Clip()) {
    const double low = Real(node, "min"), high = Real(node, "max");
    if (low <= high) return ActivationFunction{Activation::kClip, low, high};
  }
  return std::nullopt;
}

class CpuFuser : private Fuser<FusedGroup> {
 public:
  explicit CpuFuser(const Graph& graph) : Fuser(graph) {}

  std::vector<FusedGroup> Run() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (!IsFree(i)) continue;
      if (IsAnchor(i)) {
        FuseAnchor(i);
      } else if (NodeAt(i).op == ops::Fetch()) {
        AddGroup(FusedGroup(), {i});  // a copy, and no view
      } else if (IsWeightGradient(i)) {
        FuseWeightGradient(i);
      } else {
        FuseQuantized(i);
      }
    }
    GatherEnds();
    for (int i = num_nodes() - 1; i >= 0; --i) {
      if (!IsFree(i)) continue;
      if (CanJoinPointwise(i)) {
        GatherPointwise({i});
      } else if (IsReduction(i) && GatherReduction(i)) {
        continue;
      } else {
        AddGroup({.kind = OnlyMoves(graph_, NodeAt(i)) ? FusedGroup::Kind::kView : FusedGroup::Kind::kOther}, {i});
      }
    }
    // Next values of states come last, where no node reads the old ones any more: they may be written over them.
    std::vector<FusedGroup> groups = TakeGroups();
    std::set<Value> next;
    for (const Output& output : graph_.outputs()) {
      if (output.updates.node >= 0) next.insert(output.value);
    }
    for (FusedGroup& group : groups) {
      const std::vector<Value>& outputs = group.group.outputs;
      group.is_last = group.kind == FusedGroup::Kind::kPointwise &&
                      std::all_of(outputs.begin(), outputs.end(), [&](Value output) { return IsEnd(output, next); });
    }
    const std::set<NodeId> fetched = FetchForLast(&groups);
    std::stable_partition(groups.begin(), groups.end(), [](const FusedGroup& group) { return !group.is_last; });
    return JoinRows(graph_, BeforeReaders(std::move(groups), fetched));
  }

 private:
  bool IsAnchor(int i) const {
    const Node& node = NodeAt(i);
    return ComputedDType(node.outputs[0].dtype) == DType::kFloat32 &&
           (node.op == ops::Conv2d() || node.op == ops::Matmul());
  }

  bool CanJoinPointwise(int i) const {
    const Node& node = NodeAt(i);
    return IsPointwise(*node.meaning) && CountProgramLeaves(*node.meaning) <= kMaxProgramLeaves &&
           node.outputs[0].num_elements() > 0;
  }
  // Puts fetches whose only readers are groups that come last, and views of them, last as well. Returns these nodes.
  std::set<NodeId> FetchForLast(std::vector<FusedGroup>* groups) const {
    std::set<NodeId> last, may_be_last, fetched;
    for (const FusedGroup& group : *groups) {
      if (group.is_last) last.insert(group.group.nodes.begin(), group.group.nodes.end());
    }
    for (auto group = groups->rbegin(); group != groups->rend(); ++group) {
      const int i = graph_.index(group->group.nodes[0]);
      const bool moves = NodeAt(i).op == ops::Fetch() || group->kind == FusedGroup::Kind::kView;
      const std::vector<int>& users = graph_.users(i);
      const bool only = !users.empty() && !Escapes(i) && std::all_of(users.begin(), users.end(), [&](int user) {
        return last.count(IdAt(user)) + may_be_last.count(IdAt(user)) > 0;
      });
      if (moves && only) may_be_last.insert(IdAt(i));
    }
    for (FusedGroup& group : *groups) {
      const NodeId id = group.group.nodes[0];
      const Node& node = graph_.node(id);
      if (may_be_last.count(id) == 0 || (node.op != ops::Fetch() && last.count(node.operands[0].node) == 0)) continue;
      group.is_last = true;
      last.insert(id);
      fetched.insert(id);
    }
    return fetched;
  }

  // These come right before the first group that reads them: else all of them would be there at once.
  static std::vector<FusedGroup> BeforeReaders(std::vector<FusedGroup> groups, const std::set<NodeId>& moved) {
    std::map<NodeId, FusedGroup*> waiting;
    for (FusedGroup& group : groups) {
      if (moved.count(group.group.nodes[0]) > 0) waiting[group.group.nodes[0]] = &group;
    }
    std::vector<FusedGroup> ordered;
    const std::function<void(FusedGroup&)> add = [&](FusedGroup& group) {
      for (Value input : group.group.inputs) {
        const auto found = waiting.find(input.node);
        if (found == waiting.end()) continue;
        FusedGroup& read = *found->second;
        waiting.erase(found);
        add(read);
      }
      ordered.push_back(std::move(group));
    };
    for (FusedGroup& group : groups) {
      if (moved.count(group.group.nodes[0]) == 0) add(group);
    }
    return ordered;
  }
  bool IsEnd(Value value, const std::set<Value>& next) const {
    return next.count(value) > 0 && graph_.users(graph_.index(value.node)).empty();
  }

  // ---- anchors

  void FuseAnchor(int anchor) {
    FusedGroup group{.kind = NodeAt(anchor).op == ops::Conv2d() ? FusedGroup::Kind::kConv : FusedGroup::Kind::kMatmul};
    std::vector<int> members = Chain(anchor, [&](int last, int next) {
      const std::optional<EpilogueStep> step = StepOf(group, last, next);
      if (step) group.epilogue.push_back(*step);
      return step.has_value();
    });
    if (IsRounded(anchor) && absl::c_all_of(NodeAt(anchor).operands, [&](Value x) { return OnlyRoundedRead(x); })) {
      group.kind = FusedGroup::Kind::kRounded;
      for (Value operand : NodeAt(anchor).operands) members.push_back(graph_.index(operand.node));
    }
    AddGroup(std::move(group), std::move(members));
  }

  // A product of f32 of which each operand is widened from bf16, one of them a weight.
  bool IsRounded(int i) const {
    const Node& node = NodeAt(i);
    return MultipliesBf16() && node.op == ops::Matmul() && node.outputs[0].dtype == DType::kFloat32 &&
           node.operands[0] != node.operands[1] && graph_.IsKnown(node.operands[1]) &&
           absl::c_all_of(node.operands, [&](Value operand) {
             const Node& cast = graph_.node(operand.node);
             return cast.op == ops::Cast() && graph_.type(cast.operands[0]).dtype == DType::kBFloat16;
           });
  }
  bool OnlyRoundedRead(Value value) const {
    const int i = graph_.index(value.node);
    return !Escapes(i) && absl::c_all_of(graph_.users(i), [&](int user) { return IsRounded(user); });
  }

  void FuseQuantized(int anchor) {
    const std::optional<QuantizedProduct> product = QuantizedProductAt(graph_, IdAt(anchor));
    if (!product) return;
    std::vector<int> members;
    for (NodeId id : product->nodes) members.push_back(graph_.index(id));
    // Nodes before the product may be in groups of other products as well.
    CHECK(std::all_of(members.begin(), members.end(), [&](int i) { return i < anchor || IsFree(i); }));
    AddGroup({.kind = FusedGroup::Kind::kQuantized, .quantized = std::make_shared<const QuantizedProduct>(*product)},
             std::move(members));
  }

  bool ExchangesFirstAxes(int i) const {
    if (NodeAt(i).op != ops::Transpose()) return false;
    std::vector<int64_t> perm(NodeAt(i).outputs[0].shape.size());
    std::iota(perm.begin(), perm.end(), int64_t{0});
    std::swap(perm[0], perm[1]);
    return Ints(NodeAt(i), "perm") == perm;
  }

  // A convolution that the derivative of one by its weights is written as (gradients.rules).
  bool IsWeightGradient(int i) const {
    const Node& node = NodeAt(i);
    if (node.op != ops::Convolution() || node.outputs[0].dtype != DType::kFloat32 || Int(node, "groups") != 1) {
      return false;
    }
    const std::vector<int64_t>& spread = Ints(node, "lhs_dilations");
    return std::all_of(spread.begin(), spread.end(), [](int64_t one) { return one == 1; }) &&
           std::all_of(node.operands.begin(), node.operands.end(),
                       [&](Value operand) { return ExchangesFirstAxes(graph_.index(operand.node)); });
  }

  // With the transposes, which would be copies of images in blocks of channels.
  void FuseWeightGradient(int convolution) {
    std::vector<int> members =
        Chain(convolution, [&](int last, int next) { return last == convolution && ExchangesFirstAxes(next); });
    for (Value operand : NodeAt(convolution).operands) {
      const int transpose = graph_.index(operand.node);
      const std::vector<int>& users = graph_.users(transpose);
      if (Escapes(transpose) || !graph_.IsRun(NodeAt(transpose)) ||
          !std::all_of(users.begin(), users.end(), [&](int user) { return IsWeightGradient(user); })) {
        return;
      }
      members.push_back(transpose);
    }
    AddGroup({.kind = FusedGroup::Kind::kWeightGradient}, std::move(members));
  }

  // Node `user`, the only reader of node `last`, as the next step of the epilogue; none if it cannot be one.
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

  // The size of a program: it has at most kMaxProgramLeaves leaves, and its values have room on the kernel's stack.
  class ProgramSize {
   public:
    // `reads`: leaves of the nodes so far that are this node.
    void Add(int leaves, int reads) {
      ++nodes_;
      all_ += leaves;
      outside_ += leaves - reads;
      largest_ = std::max(largest_, leaves);
    }
    // A value of each node may have to be kept, and within one node at most one for each of its leaves.
    bool Fits() const {
      return all_ <= kMaxProgramLeaves ||
             (outside_ <= kMaxProgramLeaves && outside_ + nodes_ + largest_ <= kMaxProgramTiles);
    }

   private:
    int nodes_ = 0, all_ = 0, outside_ = 0, largest_ = 0;
  };

  // Results that no node reads and that are computed from the same values are one program, for example the optimizer's
  // states of a weight. Since no group waits for them, groups cannot depend on one another in a cycle.
  void GatherEnds() {
    std::vector<int> sinks;
    std::vector<size_t> same;            // by sink, an earlier one of its group, or itself
    std::map<int, size_t> first_reader;  // of a producer: the first sink that may compute it
    const auto root = [&](size_t sink) {
      while (same[sink] != sink) sink = same[sink];
      return sink;
    };
    for (int i = 0; i < num_nodes(); ++i) {
      if (!IsFree(i) || !Escapes(i) || !graph_.users(i).empty() || !CanJoinPointwise(i)) continue;
      const size_t sink = sinks.size();
      sinks.push_back(i);
      same.push_back(sink);
      std::vector<int> reached = {i};
      while (!reached.empty()) {
        const int at = reached.back();
        reached.pop_back();
        for (Value operand : NodeAt(at).operands) {
          const int producer = graph_.index(operand.node);
          if (!IsFree(producer) || Escapes(producer) || !CanJoinPointwise(producer) ||
              NodeAt(producer).outputs[0].shape != NodeAt(i).outputs[0].shape) {
            continue;
          }
          const auto [known, added] = first_reader.emplace(producer, sink);
          if (added) {
            reached.push_back(producer);
          } else if (const size_t a = root(sink), b = root(known->second); a != b) {
            same[std::max(a, b)] = std::min(a, b);
          }
        }
      }
    }
    std::map<size_t, std::vector<int>> groups;
    for (size_t sink = 0; sink < sinks.size(); ++sink) groups[root(sink)].push_back(sinks[sink]);
    for (const auto& [first, group] : groups) {
      if (group.size() > 1) GatherPointwise(group);
    }
  }

  // The sinks as one program with the producers that no one else reads; each as its own where that is too large.
  void GatherPointwise(const std::vector<int>& sinks) {
    ProgramSize size;
    for (int sink : sinks) size.Add(CountProgramLeaves(*NodeAt(sink).meaning), 0);
    if (sinks.size() > 1 && !size.Fits()) return;
    AddGroup({.kind = FusedGroup::Kind::kPointwise}, Program(sinks, NodeAt(sinks[0]).outputs[0].shape, size), sinks);
  }

  bool IsReduction(int i) const {
    const Node& node = NodeAt(i);
    return ComputedDType(node.outputs[0].dtype) == DType::kFloat32 && node.outputs[0].num_elements() > 0 &&
           IsJoin(node);
  }
  bool GatherReduction(int reduction) {
    std::vector<int> members = Program({reduction}, graph_.type(NodeAt(reduction).operands[0]).shape, {});
    if (members.size() == 1) return false;
    AddGroup({.kind = FusedGroup::Kind::kReduce}, std::move(members));
    return true;
  }

  // The sinks, of this size, and pointwise producers of one shape.
  std::vector<int> Program(const std::vector<int>& sinks, const Shape& shape, ProgramSize size) const {
    return WithProducers(sinks, [&](int i, const std::set<int>&) {
      if (!CanJoinPointwise(i) || NodeAt(i).outputs[0].shape != shape) return false;
      const std::vector<int>& users = graph_.users(i);
      if (!std::all_of(users.begin(), users.end(), [&](int user) { return ReadsIdentically(user, i); })) return false;
      int reads = 0;
      for (int user : users) {
        const std::vector<Value>& operands = NodeAt(user).operands;
        reads += static_cast<int>(std::count(operands.begin(), operands.end(), Value{IdAt(i), 0}));
      }
      ProgramSize larger = size;
      larger.Add(CountProgramLeaves(*NodeAt(i).meaning), reads);
      if (!larger.Fits()) return false;
      size = larger;
      return true;
    });
  }

  bool ReadsIdentically(int user, int producer) const {
    if (IsReduction(user)) return true;
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
