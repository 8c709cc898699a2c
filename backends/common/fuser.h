// Divides a graph into the groups that a device runs as one. This class has the parts that are the same on every
// device: the group of each node, the chain of nodes behind an anchor, the producers that are computed with their
// readers, the order of groups. A device derives from it and says which nodes may join.
#pragma once

#include <algorithm>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "backends/common/group.h"
#include "core/ir/graph.h"

namespace rewright {

// `FusedGroup` has a member `group` of type Group. Nodes are named by their position in Graph::nodes().
template <typename FusedGroup>
class Fuser {
 protected:
  explicit Fuser(const Graph& graph) : graph_(graph), owner_(graph.nodes().size(), kFree) {}

  // Only these nodes are put into groups.
  void Restrict(const std::vector<NodeId>& nodes) {
    std::fill(owner_.begin(), owner_.end(), kOutside);
    for (NodeId id : nodes) owner_[graph_.index(id)] = kFree;
  }

  int num_nodes() const { return static_cast<int>(owner_.size()); }
  NodeId IdAt(int i) const { return graph_.nodes()[i]; }
  const Node& NodeAt(int i) const { return graph_.node(IdAt(i)); }
  // A run computes the node, and it is in no group yet.
  bool IsFree(int i) const { return owner_[i] == kFree && graph_.IsRun(NodeAt(i)); }
  bool Escapes(int i) const { return graph_.is_output(Value{IdAt(i), 0}); }

  // Makes a group of free nodes, of which the outputs of the last one escape, or those of `sinks`.
  void AddGroup(FusedGroup group, std::vector<int> members, const std::vector<int>& sinks = {}) {
    std::sort(members.begin(), members.end());
    const int index = static_cast<int>(groups_.size());
    for (int i : members) owner_[i] = index;
    group.group = MakeGroup(graph_, members, sinks);
    order_.emplace_back(members.back(), index);
    groups_.push_back(std::move(group));
  }

  // The anchor and what follows it: each node is the only reader of the one before, and take(last, next) says whether
  // it joins.
  template <typename Take>
  std::vector<int> Chain(int anchor, const Take& take) const {
    std::vector<int> members = {anchor};
    for (int last = anchor; !Escapes(last) && graph_.users(last).size() == 1; last = members.back()) {
      const int next = graph_.users(last)[0];
      if (!IsFree(next) || !take(last, next)) break;
      members.push_back(next);
    }
    return members;
  }

  // The sinks and the free producers all of whose readers are members, in order; join(i, members) says whether one
  // joins. Producers that stand last are asked first.
  template <typename Join>
  std::vector<int> WithProducers(const std::vector<int>& sinks, const Join& join) const {
    std::set<int> members(sinks.begin(), sinks.end());
    std::priority_queue<int> candidates;
    const auto push_operands = [&](int i) {
      for (Value operand : NodeAt(i).operands) candidates.push(graph_.index(operand.node));
    };
    for (int sink : sinks) push_operands(sink);
    while (!candidates.empty()) {
      const int i = candidates.top();
      candidates.pop();
      if (members.count(i) > 0 || !IsFree(i) || Escapes(i)) continue;
      const std::vector<int>& users = graph_.users(i);
      if (!std::all_of(users.begin(), users.end(), [&](int user) { return members.count(user) > 0; })) continue;
      if (!join(i, members)) continue;
      members.insert(i);
      push_operands(i);
    }
    return std::vector<int>(members.begin(), members.end());
  }

  // All groups, operands before users.
  std::vector<FusedGroup> TakeGroups() {
    std::sort(order_.begin(), order_.end());
    std::vector<FusedGroup> sorted;
    for (const auto& [last, index] : order_) sorted.push_back(std::move(groups_[index]));
    return sorted;
  }

  const Graph& graph_;

 private:
  static constexpr int kFree = -1, kOutside = -2;

  std::vector<int> owner_;  // the group of every node
  std::vector<FusedGroup> groups_;
  std::vector<std::pair<int, int>> order_;  // the last node of a group, the group
};

}  // namespace rewright
