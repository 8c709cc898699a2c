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

constexpr int kMaxRegion = 12;  // nodes of a decomposed activation function

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : graph_(graph), owner_(graph.nodes().size(), -1) {}

  std::vector<FusedGroup> Run() {
    const int count = static_cast<int>(graph_.nodes().size());
    for (int i = 0; i < count; ++i) {
      if (owner_[i] < 0 && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = count - 1; i >= 0; --i) {
      if (owner_[i] >= 0 || !graph_.IsRun(NodeAt(i))) continue;
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
  const Node& NodeAt(int i) const { return graph_.node(graph_.nodes()[i]); }
  NodeId IdAt(int i) const { return graph_.nodes()[i]; }
  bool Escapes(int i) const { return graph_.is_output(Value{IdAt(i), 0}); }

  bool IsAnchor(int i) const {
    const Node& node = NodeAt(i);
    if (!graph_.IsRun(node) || node.outputs[0].dtype != DType::kFloat32) return false;
    return node.op == ops::Conv2d() || node.op == ops::Matmul();
  }

  bool CanJoinPointwise(int i) const {
    const Node& node = NodeAt(i);
    return graph_.IsRun(node) && owner_[i] < 0 && IsPointwise(*node.meaning) &&
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

  // What an epilogue may still take: first scales and shifts, then at most one residual, then activation functions.
  enum class Stage : uint8_t { kLinear, kActivations };

  void FuseAnchor(int anchor) {
    const bool conv = NodeAt(anchor).op == ops::Conv2d();
    FusedGroup group;
    group.kind = conv ? FusedGroup::Kind::kConv : FusedGroup::Kind::kMatmul;
    std::vector<int> members = {anchor};
    Stage stage = Stage::kLinear;
    int last = anchor;
    while (!Escapes(last)) {
      const std::vector<int>& users = graph_.users(last);
      if (users.empty()) break;
      if (users.size() == 1 && owner_[users[0]] < 0 && TakeUser(anchor, last, users[0], &stage, &group.epilogue)) {
        members.push_back(users[0]);
        last = users[0];
        continue;
      }
      std::vector<int> region;
      if (!TakeRegion(last, &region, &group.epilogue)) break;
      stage = Stage::kActivations;
      members.insert(members.end(), region.begin(), region.end());
      last = region.back();
    }
    AddGroup(std::move(group), std::move(members));
  }

  // Tries to make node `user`, the only reader of node `last`, the next step.
  bool TakeUser(int anchor, int last, int user, Stage* stage, std::vector<EpilogueStep>* epilogue) {
    const Node& node = NodeAt(user);
    const TensorType& type = NodeAt(last).outputs[0];
    if (node.outputs.size() != 1 || node.outputs[0] != type) return false;
    const Value value{IdAt(last), 0};
    EpilogueStep step;
    step.node = IdAt(user);
    const auto uses = std::count(node.operands.begin(), node.operands.end(), value);
    if (uses != 1) return false;
    step.operand =
        static_cast<int>(std::find(node.operands.begin(), node.operands.end(), value) - node.operands.begin());
    if (*stage == Stage::kLinear && IsLinearStep(anchor, node, step.operand, type)) {
      step.kind = EpilogueStep::Kind::kLinear;
    } else if (*stage == Stage::kLinear && node.op == ops::Add() && IsResidual(node.operands[1 - step.operand], type)) {
      step.kind = EpilogueStep::Kind::kResidual;
      step.other = node.operands[1 - step.operand];
      *stage = Stage::kActivations;
    } else if (const std::optional<ActivationFunction> named = NamedActivation(node);
               named.has_value() && !Has(*epilogue, *named)) {
      step.kind = EpilogueStep::Kind::kActivation;
      step.activation = *named;
      *stage = Stage::kActivations;
    } else {
      return false;
    }
    epilogue->push_back(step);
    return true;
  }

  // Two functions of one kind do not go together: oneDNN 2.6 gives both the parameters of the first.
  static bool Has(const std::vector<EpilogueStep>& epilogue, const ActivationFunction& f) {
    return std::any_of(epilogue.begin(), epilogue.end(), [&](const EpilogueStep& step) {
      return step.kind == EpilogueStep::Kind::kActivation && step.activation.activation == f.activation;
    });
  }

  bool IsResidual(Value other, const TensorType& type) const { return graph_.type(other) == type; }

  bool IsLinearStep(int anchor, const Node& node, int operand, const TensorType& type) const {
    const Node& anchor_node = NodeAt(anchor);
    const bool conv = anchor_node.op == ops::Conv2d();
    const int channel = conv ? 1 : type.rank() - 1;
    const OpDef* const op = node.op;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (static_cast<int>(i) != operand && !graph_.IsKnown(node.operands[i])) return false;
    }
    if (op == ops::BatchNorm()) return operand == 0 && conv;
    if (op != ops::Add() && op != ops::Sub() && op != ops::Mul() && op != ops::Div()) return false;
    if (op == ops::Div() && operand == 1) return false;
    const TensorType& other = graph_.type(node.operands[1 - operand]);
    return IsPerChannel(other, type, channel);
  }

  // The smallest closed region of pointwise nodes over the value of `last` that is a known activation function.
  bool TakeRegion(int last, std::vector<int>* region, std::vector<EpilogueStep>* epilogue) {
    const TensorType& type = NodeAt(last).outputs[0];
    std::priority_queue<int, std::vector<int>, std::greater<int>> candidates;
    for (int user : graph_.users(last)) candidates.push(user);
    std::set<int> members;
    auto inside = [&](int i) { return i == last || members.count(i) > 0; };
    while (!candidates.empty() && members.size() < kMaxRegion) {
      const int i = candidates.top();
      candidates.pop();
      if (members.count(i) > 0) continue;
      const Node& node = NodeAt(i);
      if (owner_[i] >= 0 || node.outputs.size() != 1 || node.outputs[0].shape != type.shape || !CanJoinPointwise(i)) {
        return false;
      }
      for (Value operand : node.operands) {
        if (!inside(graph_.index(operand.node)) && SingleConstant(graph_, operand) == nullptr) return false;
      }
      members.insert(i);
      region->push_back(i);
      if (IsClosed(last, *region, members)) {
        std::vector<NodeId> nodes;
        for (int member : *region) nodes.push_back(IdAt(member));
        const auto program = BuildProgram(graph_, nodes, [&](Value v) { return SingleConstant(graph_, v); });
        if (program.ok()) {
          if (const auto known = RecognizeActivation(*program); known.has_value() && !Has(*epilogue, *known)) {
            EpilogueStep step;
            step.kind = EpilogueStep::Kind::kActivation;
            step.node = IdAt(i);
            step.activation = *known;
            epilogue->push_back(step);
            return true;
          }
        }
      }
      if (Escapes(i)) return false;
      for (int user : graph_.users(i)) candidates.push(user);
    }
    return false;
  }

  // Only the value of the newest member is read outside.
  bool IsClosed(int last, const std::vector<int>& region, const std::set<int>& members) const {
    auto closed = [&](int i) {
      const std::vector<int>& users = graph_.users(i);
      return std::all_of(users.begin(), users.end(), [&](int user) { return members.count(user) > 0; });
    };
    return closed(last) && std::all_of(region.begin(), region.end() - 1, [&](int i) { return closed(i); });
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
  std::vector<int> owner_;  // group of each position, -1: none yet
  std::vector<FusedGroup> groups_;
  std::vector<std::pair<int, int>> order_;  // last position, group
};

}  // namespace

std::vector<FusedGroup> FuseGraph(const Graph& graph) { return Fuser(graph).Run(); }

}  // namespace rewright::cpu
