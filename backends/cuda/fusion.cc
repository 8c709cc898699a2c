#include "backends/cuda/fusion.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "backends/attrs.h"
#include "backends/cuda/concat.h"
#include "backends/cuda/kernel_source.h"
#include "backends/group.h"
#include "backends/meaning.h"
#include "core/ops/ops.h"

namespace rewright::cuda {
namespace {

constexpr size_t kMaxMembers = 32;
constexpr size_t kMaxInputs = 24;
constexpr size_t kMaxSiblings = 8;
constexpr double kCheap = 6;              // work on an element that may be done again at every reader
constexpr double kReduction = 24;         // work that says a node reduces
constexpr int kFree = -1, kOutside = -2;  // nodes of no group yet, and those that are not to be in any

// What the library's fused attention takes.
constexpr int64_t kMaxDepth = 128, kDepthUnit = 8;

class Fuser {
 public:
  Fuser(const Graph& graph, const FusionOptions& options)
      : graph_(graph), options_(options), owner_(graph.nodes().size(), kFree) {}

  void Restrict(const std::vector<NodeId>& nodes) {
    std::fill(owner_.begin(), owner_.end(), kOutside);
    for (NodeId id : nodes) owner_[graph_.index(id)] = kFree;
  }

  std::vector<FusedGroup> Run() {
    const int count = static_cast<int>(graph_.nodes().size());
    for (int i = 0; i < count && options_.attention; ++i) {
      if (IsFree(i)) FuseAttention(i);
    }
    for (int i = 0; i < count; ++i) {
      if (IsFree(i) && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = count - 1; i >= 0; --i) {
      if (!IsFree(i)) continue;
      if (HasSlots(i)) {
        FusedGroup group;
        group.kind = FusedGroup::Kind::kConcat;
        AddGroup(std::move(group), {i});
      } else {
        Gather(i);
      }
    }
    std::sort(order_.begin(), order_.end());
    std::vector<FusedGroup> sorted;
    for (const auto& [last, index] : order_) sorted.push_back(std::move(groups_[index]));
    return JoinSiblings(std::move(sorted));
  }

 private:
  const Node& NodeAt(int i) const { return graph_.node(IdAt(i)); }
  NodeId IdAt(int i) const { return graph_.nodes()[i]; }
  bool IsFree(int i) const {
    const Node& node = NodeAt(i);
    return owner_[i] == kFree && graph_.IsRun(node);
  }
  bool IsAnchor(int i) const {
    const Node& node = NodeAt(i);
    if (node.outputs[0].dtype != DType::kFloat32 || node.outputs[0].num_elements() == 0) return false;
    for (Value operand : node.operands) {
      if (graph_.type(operand).num_elements() == 0) return false;  // an empty sum is no call of a library
    }
    return node.op == ops::Conv2d() || node.op == ops::Matmul();
  }
  void AddGroup(FusedGroup group, std::vector<int> members) {
    std::sort(members.begin(), members.end());
    const int index = static_cast<int>(groups_.size());
    for (int i : members) owner_[i] = index;
    group.group = MakeGroup(graph_, members);
    order_.emplace_back(members.back(), index);
    groups_.push_back(std::move(group));
  }

  // ---- attention

  // The application that gives `value`, if nobody else reads it and it is free; null otherwise.
  const Node* OnlyFor(Value value, int reader) const {
    const Node& node = graph_.node(value.node);
    const int i = graph_.index(value.node);
    if (!IsFree(i) || graph_.is_output(value) || node.outputs.size() != 1) return nullptr;
    const std::vector<int>& users = graph_.users(i);
    return users.size() == 1 && users[0] == reader ? &node : nullptr;
  }

  // From the second product back to the first.
  void FuseAttention(int last) {
    const Node& second = NodeAt(last);
    if (second.op != ops::Matmul() || !IsAnchor(last)) return;
    std::vector<int> members = {last};
    Value at = second.operands[0];
    const Node* node = OnlyFor(at, last);
    const TensorType scores = graph_.type(at);
    auto step = [&](Value next) {
      members.push_back(graph_.index(at.node));
      at = next;
      node = OnlyFor(at, members.back());
    };
    if (node == nullptr || node->op != ops::Softmax() || Int(*node, "axis") != scores.rank() - 1) return;
    step(node->operands[0]);
    FusedGroup group;
    group.kind = FusedGroup::Kind::kAttention;
    // The mask is the summand that is no scaled product.
    if (node != nullptr && node->op == ops::Add()) {
      const int product = IsScores(node->operands[0]) ? 0 : 1;
      group.mask = node->operands[1 - product];
      if (graph_.type(group.mask).rank() > 4) return;
      step(node->operands[product]);
    }
    if (node != nullptr && (node->op == ops::Mul() || node->op == ops::Div())) {
      const int constant = SingleConstant(graph_, node->operands[1]) != nullptr || node->op == ops::Div() ? 1 : 0;
      const Tensor* scale = SingleConstant(graph_, node->operands[constant]);
      if (scale == nullptr) return;
      group.scale = node->op == ops::Div() ? 1 / scale->At(0) : scale->At(0);
      step(node->operands[1 - constant]);
    }
    if (node == nullptr || node->op != ops::Matmul() || graph_.type(at) != scores) return;
    members.push_back(graph_.index(at.node));
    if (IsAttention(graph_.type(node->operands[0]), graph_.type(node->operands[1]), graph_.type(second.operands[1]))) {
      AddGroup(std::move(group), std::move(members));
    }
  }

  // A product, scaled or not.
  bool IsScores(Value value) const {
    const Node& node = graph_.node(value.node);
    if (!graph_.IsRun(node)) return false;
    if (node.op != ops::Mul() && node.op != ops::Div()) return node.op == ops::Matmul();
    return std::any_of(node.operands.begin(), node.operands.end(), [&](Value operand) {
      const Node& product = graph_.node(operand.node);
      return product.op != nullptr && product.op == ops::Matmul();
    });
  }

  static bool IsAttention(const TensorType& query, const TensorType& key, const TensorType& value) {
    const size_t rank = query.shape.size();
    if (query.dtype != DType::kFloat32 || rank < 2 || rank > 4) return false;
    if (key.shape.size() != rank || value.shape.size() != rank) return false;
    for (size_t k = 0; k + 2 < rank; ++k) {
      if (key.shape[k] != query.shape[k] || value.shape[k] != query.shape[k]) return false;
    }
    const auto fits = [](int64_t depth) { return depth % kDepthUnit == 0 && depth > 0 && depth <= kMaxDepth; };
    return fits(query.shape[rank - 1]) && fits(value.shape[rank - 1]);
  }

  // ---- anchors

  void FuseAnchor(int anchor) {
    const bool conv = NodeAt(anchor).op == ops::Conv2d();
    FusedGroup group;
    group.kind = conv ? FusedGroup::Kind::kConv : FusedGroup::Kind::kMatmul;
    std::vector<int> members = {anchor};
    int last = anchor;
    while (!group.relu && !graph_.is_output(Value{IdAt(last), 0}) && graph_.users(last).size() == 1) {
      const int user = graph_.users(last)[0];
      const int channel_axis = conv ? 1 : NodeAt(anchor).outputs[0].rank() - 1;
      if (!IsFree(user) || !Take(IdAt(last), NodeAt(user), channel_axis, &group)) break;
      members.push_back(user);
      last = user;
    }
    AddGroup(std::move(group), std::move(members));
  }

  // Makes `node`, the only reader of `last`, part of the epilogue if it can be.
  bool Take(NodeId last, const Node& node, int channel_axis, FusedGroup* group) {
    const TensorType& type = graph_.node(last).outputs[0];
    if (node.outputs[0] != type) return false;
    if (node.op == ops::Relu()) return options_.whole_epilogues && (group->relu = true);
    if (node.op != ops::Add() || group->residual.node >= 0) return false;
    const int at = node.operands[0] == Value{last, 0} ? 0 : 1;
    const Value other = node.operands[1 - at];
    if (other == Value{last, 0}) return false;
    const TensorType& other_type = graph_.type(other);
    if (group->bias.node < 0 && graph_.IsKnown(other) && IsPerChannel(other_type, type, channel_axis)) {
      group->bias = other;
      return true;
    }
    if (other_type != type || !options_.whole_epilogues) return false;
    group->residual = other;
    return true;
  }

  // ---- generated kernels

  bool HasSlots(int i) const {
    const auto slots = ConcatSlots(graph_, IdAt(i), options_.channels_last, options_.element_bytes);
    return std::any_of(slots.begin(), slots.end(), [](const auto& slot) { return slot.has_value(); });
  }

  bool CanJoin(int i) const {
    const Node& node = NodeAt(i);
    return IsFree(i) && node.outputs.size() == 1 && node.outputs[0].num_elements() > 0 &&
           !graph_.is_output({IdAt(i), 0}) && ElementWork(graph_, IdAt(i), 0) <= kCheap;
  }

  void Gather(int sink) {
    const Node& node = NodeAt(sink);
    std::set<int> members = {sink};
    std::priority_queue<int> candidates;
    auto push_operands = [&](int i) {
      for (Value operand : NodeAt(i).operands) candidates.push(graph_.index(operand.node));
    };
    const bool moves = OnlyMoves(graph_, node);
    const bool alone = node.outputs.size() > 1 || moves;
    if (!alone) push_operands(sink);
    // What a reduction reads it reads for many results: only the cheapest may be computed anew for each.
    double work = ElementWork(graph_, IdAt(sink), 0);
    const bool reduces = work >= kReduction;
    while (!candidates.empty() && members.size() < kMaxMembers) {
      const int i = candidates.top();
      candidates.pop();
      if (members.count(i) > 0 || !CanJoin(i)) continue;
      const std::vector<int>& users = graph_.users(i);
      if (!std::all_of(users.begin(), users.end(), [&](int user) { return members.count(user) > 0; })) continue;
      const double more = ElementWork(graph_, IdAt(i), 0);
      if (reduces && more > kCheap / 2) continue;
      std::vector<int> trial(members.begin(), members.end());
      trial.insert(std::lower_bound(trial.begin(), trial.end(), i), i);
      if (InputsOf(graph_, trial).size() > kMaxInputs) continue;
      members.insert(i);
      push_operands(i);
    }
    FusedGroup group;
    group.kind = moves ? FusedGroup::Kind::kView : FusedGroup::Kind::kKernel;
    AddGroup(std::move(group), std::vector<int>(members.begin(), members.end()));
  }

  // ---- siblings

  // The one value that an anchor's group reads beside weights; a node of -1 where there are several.
  Value OnlyOperand(const FusedGroup& group) const {
    Value only;
    if (group.kind != FusedGroup::Kind::kConv && group.kind != FusedGroup::Kind::kMatmul) return only;
    for (Value input : group.group.inputs) {
      if (graph_.IsKnown(input)) continue;
      if (only.node >= 0) return Value();
      only = input;
    }
    return only;
  }

  // Where the first of them stands, all can: they wait for that value alone.
  std::vector<FusedGroup> JoinSiblings(std::vector<FusedGroup> groups) const {
    std::vector<FusedGroup> joined;
    std::map<Value, size_t> places;  // of the last group of siblings that read a value
    for (FusedGroup& group : groups) {
      const Value operand = OnlyOperand(group);
      if (operand.node < 0) {
        joined.push_back(std::move(group));
        continue;
      }
      const auto [place, first] = places.emplace(operand, joined.size());
      if (!first && joined[place->second].parts.size() < kMaxSiblings) {
        joined[place->second].parts.push_back(std::move(group));
        continue;
      }
      place->second = joined.size();
      joined.emplace_back();
      joined.back().kind = FusedGroup::Kind::kSiblings;
      joined.back().parts.push_back(std::move(group));
    }
    for (FusedGroup& group : joined) {
      if (group.kind != FusedGroup::Kind::kSiblings) continue;
      if (group.parts.size() == 1) {
        FusedGroup alone = std::move(group.parts[0]);
        group = std::move(alone);
        continue;
      }
      std::vector<int> members;
      std::vector<Value> outputs;
      for (const FusedGroup& part : group.parts) {
        for (NodeId id : part.group.nodes) members.push_back(graph_.index(id));
        outputs.insert(outputs.end(), part.group.outputs.begin(), part.group.outputs.end());
      }
      std::sort(members.begin(), members.end());
      group.group = MakeGroup(graph_, members);
      group.group.outputs = std::move(outputs);
    }
    return joined;
  }

  const Graph& graph_;
  const FusionOptions options_;
  std::vector<int> owner_;  // group of each position
  std::vector<FusedGroup> groups_;
  std::vector<std::pair<int, int>> order_;  // last position, group
};

}  // namespace

std::vector<FusedGroup> FuseGraph(const Graph& graph, const FusionOptions& options) {
  return Fuser(graph, options).Run();
}

std::vector<FusedGroup> FuseNodes(const Graph& graph, const std::vector<NodeId>& nodes, bool whole_epilogues) {
  FusionOptions options;
  options.whole_epilogues = whole_epilogues;
  Fuser fuser(graph, options);
  fuser.Restrict(nodes);
  return fuser.Run();
}

}  // namespace rewright::cuda
