// Equality graphs: many equal graphs in the room of one.
//
// An e-graph is a set of e-nodes (operator applications and leaves) whose operands are classes of equal values rather
// than values. It stands for every graph that is built by picking one e-node from each class.
//
// E-nodes are the Nodes of an Arena, and a class is named by one of its values, its representative: an e-node is a node
// whose operands are representatives. So the arena's hash-consing finds congruent nodes, applications with several
// outputs (split) are e-nodes whose outputs lie in a class each, and rules are matched and applied with the very code
// that serves graphs (substitutions/match/matcher.h). The representative also carries the known facts of the class: its
// type, which all members share; its elements, if some member is a constant or weight; and if some member depends on
// weights alone. When two classes become one, the representative with more facts stays.
//
// Congruence (equal operators with equal operands are equal) is restored by Rebuild(), once for many unions.
//
// Sources: G. Nelson, D. Oppen, Fast decision procedures based on congruence closure, JACM 1980; M. Willsey et al.,
// egg: fast and extensible equality saturation, POPL 2021 (deferred rebuilding: section 3; class analyses: section 4).
//
// All orders depend only on the calls that were made, so results are the same in every run. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "substitutions/match/matcher.h"

namespace rewright {

class EGraph {
 public:
  EGraph() : EGraph(std::make_shared<Arena>()) {}
  // Puts e-nodes into `arena`, next to the nodes that are there.
  explicit EGraph(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}

  const std::shared_ptr<Arena>& arena() const { return arena_; }

  // Adds a graph of this arena or another one, whose leaves are told apart by name. Gives the classes of its outputs.
  // Errors: a name that stands for different leaves.
  absl::StatusOr<std::vector<Value>> Add(const Graph& graph);
  // The class of a value of the arena, which is added with all that it is computed from.
  Value Add(Value value);

  // The e-node that an application or leaf that was added is now: the same operator, read from representatives.
  NodeId NodeOf(NodeId id);

  // The representative of the class of a value that was added. A union may change it.
  Value Find(Value value) const;
  bool Equal(Value a, Value b) const { return Find(a) == Find(b); }
  bool Contains(Value value) const { return IndexOf(value) >= 0; }

  // Two values of one type are equal from now on; false when they were before. Congruence holds again after Rebuild().
  bool Union(Value a, Value b);
  void Rebuild();

  // E-nodes, leaves among them, and classes.
  int num_nodes() const { return num_nodes_; }
  int num_classes() const { return num_classes_; }
  // Values in the order in which they were added: num_values() before and after a call tells the values that it added.
  size_t num_values() const { return values_.size(); }
  Value value(size_t i) const { return values_[i]; }
  // How many unions joined two classes: with num_nodes(), tells whether anything has changed.
  int64_t num_unions() const { return num_unions_; }

  // After Rebuild(), ascending: the e-nodes with an output in the class of `value`; those that read it; all
  // applications; the representatives of all classes.
  const std::vector<NodeId>& Nodes(Value value) const { return classes_[Root(value)].nodes; }
  const std::vector<NodeId>& Users(Value value) const { return classes_[Root(value)].users; }
  const std::vector<NodeId>& Applications() const { return applications_; }
  std::vector<Value> Classes() const;

  // Appends the matches of a rule whose first output `node`, an e-node, computes. Leaves of the rule stand for classes,
  // given by their representatives; applications for e-nodes. To be called after Rebuild().
  void MatchAt(const Matcher& matcher, NodeId node, std::vector<Match>* matches) const;

  // Appends the rules of the net that may match there, ascending. To be called after Rebuild().
  void Candidates(const DiscriminationNet& net, NodeId node, std::vector<int>* rules) const;

  // Checks the invariants of all classes, for tests: no two e-nodes are congruent, operands are representatives, and
  // members have one type.
  bool IsCongruent() const;

 private:
  struct Class {
    std::vector<NodeId> nodes;
    std::vector<NodeId> users;
  };

  // The index of the value in values_; -1 if it was not added.
  int32_t IndexOf(Value value) const;
  size_t Root(Value value) const;
  size_t Root(size_t index) const;
  // The node with representatives as operands, those of commutative operators in order.
  NodeId Canonical(NodeId id);
  // Makes `id`, which is canonical, an e-node with classes of its own.
  void Register(NodeId id);
  void AddNode(NodeId id);
  void Tidy();

  std::shared_ptr<Arena> arena_;
  std::vector<int32_t> first_;            // by node: the index of its output 0, -1: not added
  std::vector<Value> values_;             // by index, and so all that follows
  mutable std::vector<uint32_t> parent_;  // union-find; a representative is its own parent
  std::vector<Class> classes_;            // of representatives
  std::vector<bool> live_;                // by node: it is an e-node
  std::vector<NodeId> applications_;
  std::vector<NodeId> stale_;    // e-nodes with operands that may be representatives no more
  std::vector<size_t> touched_;  // classes to be tidied
  int num_nodes_ = 0;
  int num_classes_ = 0;
  int64_t num_unions_ = 0;
};

}  // namespace rewright
