#include "backends/cuda/fusion.h"

#include <algorithm>
#include <queue>
#include <set>

#include "backends/cuda/kernel_source.h"
#include "backends/group.h"
#include "backends/meaning.h"

namespace rewright::cuda {
namespace {

constexpr size_t kMaxMembers = 32;
constexpr size_t kMaxInputs = 24;
constexpr double kCheap = 6;       // work on an element that may be done again at every reader
constexpr double kReduction = 24;  // work that says a node reduces

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : graph_(graph), owner_(graph.nodes().size(), -1) {}

  std::vector<FusedGroup> Run() {
    const int count = static_cast<int>(graph_.nodes().size());
    for (int i = 0; i < count; ++i) {
      if (IsFree(i) && IsAnchor(i)) FuseAnchor(i);
    }
    for (int i = count - 1; i >= 0; --i) {
      if (IsFree(i)) Gather(i);
    }
    std::sort(order_.begin(), order_.end());
    std::vector<FusedGroup> sorted;
    for (const auto& [last, index] : order_) sorted.push_back(std::move(groups_[static_cast<size_t>(index)]));
    return sorted;
  }

 private:
  const Node& NodeAt(int i) const { return graph_.node(IdAt(i)); }
  NodeId IdAt(int i) const { return graph_.nodes()[static_cast<size_t>(i)]; }
  bool IsFree(int i) const {
    const Node& node = NodeAt(i);
    return owner_[static_cast<size_t>(i)] < 0 && node.op != nullptr && !node.weight_only;
  }
  bool IsAnchor(int i) const {
    const Node& node = NodeAt(i);
    if (node.outputs[0].dtype != DType::kFloat32 || node.outputs[0].num_elements() == 0) return false;
    for (Value operand : node.operands) {
      if (graph_.type(operand).num_elements() == 0) return false;  // an empty sum is no call of a library
    }
    return node.op->name == "conv2d" || node.op->name == "matmul";
  }
  void AddGroup(FusedGroup group, std::vector<int> members) {
    std::sort(members.begin(), members.end());
    const int index = static_cast<int>(groups_.size());
    for (int i : members) owner_[static_cast<size_t>(i)] = index;
    group.group = MakeGroup(graph_, members);
    order_.emplace_back(members.back(), index);
    groups_.push_back(std::move(group));
  }

  // ---- anchors

  void FuseAnchor(int anchor) {
    const bool conv = NodeAt(anchor).op->name == "conv2d";
    FusedGroup group;
    group.kind = conv ? FusedGroup::Kind::kConv : FusedGroup::Kind::kMatmul;
    std::vector<int> members = {anchor};
    int last = anchor;
    while (!group.relu && !graph_.is_output(Value{IdAt(last), 0}) && graph_.users(last).size() == 1) {
      const int user = graph_.users(last)[0];
      if (!IsFree(user) || !Take(IdAt(last), NodeAt(user), conv ? 1 : NodeAt(anchor).outputs[0].rank() - 1, &group)) break;
      members.push_back(user);
      last = user;
    }
    AddGroup(std::move(group), std::move(members));
  }

  // Makes `node`, the only reader of `last`, part of the epilogue if it can be.
  bool Take(NodeId last, const Node& node, int channel_axis, FusedGroup* group) {
    const TensorType& type = graph_.node(last).outputs[0];
    if (node.outputs[0] != type) return false;
    if (node.op->name == "relu") return group->relu = true;
    if (node.op->name != "add" || group->residual.node >= 0) return false;
    const int at = node.operands[0] == Value{last, 0} ? 0 : 1;
    const Value other = node.operands[static_cast<size_t>(1 - at)];
    if (other == Value{last, 0}) return false;
    const TensorType& other_type = graph_.type(other);
    if (group->bias.node < 0 && graph_.node(other.node).weight_only &&
        IsPerChannel(other_type, type, channel_axis)) {
      group->bias = other;
      return true;
    }
    if (other_type != type) return false;
    group->residual = other;
    return true;
  }

  // ---- generated kernels

  bool CanJoin(int i) const {
    const Node& node = NodeAt(i);
    return IsFree(i) && node.outputs.size() == 1 && node.outputs[0].num_elements() > 0 && !graph_.is_output({IdAt(i), 0}) &&
           ElementWork(graph_, IdAt(i), 0) <= kCheap;
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

  const Graph& graph_;
  std::vector<int> owner_;  // group of each position, -1: none yet
  std::vector<FusedGroup> groups_;
  std::vector<std::pair<int, int>> order_;  // last position, group
};

}  // namespace

std::vector<FusedGroup> FuseGraph(const Graph& graph) { return Fuser(graph).Run(); }

}  // namespace rewright::cuda
