// Finds the rules that may match at a node: a discrimination net over the left sides of all rules.
//
// A left side, read from its first output down, is a sequence of tests: an operator with its number of operands, and
// then its operands, each again an application or a leaf. The net is the trie of these sequences, so that a common top
// of several rules is tested once for all of them, and one walk per node replaces one attempt per rule. It tests
// operators, which output of an operand is read, and that leaves depend on weights alone or have known elements;
// operands of commutative operators stand in both orders. It leaves repeated variables, attributes, sizes, further
// outputs and everything below kMaxDepth applications to the matcher, which alone binds names: a rule that the net does
// not name does not match, one that it names may.
//
// Source: W. McCune, Experiments with discrimination-tree indexing and path indexing for term retrieval, Journal of
// Automated Reasoning 1992.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"

namespace rewright {

class CompiledRule;

// Immutable once built; may be shared by threads.
class DiscriminationNet {
 public:
  DiscriminationNet() = default;
  // Rules are numbered in order. The net keeps a copy of everything that it needs of them.
  explicit DiscriminationNet(const std::vector<const CompiledRule*>& rules);

  // Appends the numbers of the rules whose first output `node`, an application, may compute; ascending. match_search.h
  // describes a View.
  template <typename View>
  void Find(const View& view, NodeId node, std::vector<int>* rules) const;

  int num_states() const { return static_cast<int>(states_.size()); }

 private:
  friend class DiscriminationNetBuilder;

  enum class Test : uint8_t {
    kAny,
    kWeight,       // depends on weights and constants alone
    kKnown,        // a leaf whose elements are known at inference
    kApplication,  // of `op`, read at `output`; its operands follow
  };
  struct Edge {
    Test test = Test::kAny;
    const OpDef* op = nullptr;
    int32_t output = 0;
    int32_t operands = 0;  // how many; -1: any number, and none of them is tested
    int next = 0;
    bool Is(const Edge& other) const {
      return test == other.test && op == other.op && output == other.output && operands == other.operands;
    }
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<int> rules;  // that end here
  };
  // Values that are still to be tested, the nearest first.
  struct Pending {
    const Value* next = nullptr;
    const Value* end = nullptr;
    const Pending* rest = nullptr;
  };

  template <typename View>
  void Walk(const View& view, int state, Pending pending, std::vector<int>* rules) const;
  template <typename View>
  void Enter(const View& view, const Edge& edge, NodeId node, const Pending* rest, std::vector<int>* rules) const;
  static void SortUnique(size_t from, std::vector<int>* rules);

  std::vector<State> states_;
  absl::flat_hash_map<const OpDef*, std::vector<Edge>> roots_;
};

template <typename View>
void DiscriminationNet::Find(const View& view, NodeId node, std::vector<int>* rules) const {
  const auto edges = roots_.find(view.arena().node(node).op);
  if (edges == roots_.end()) return;
  const size_t before = rules->size();
  for (const Edge& edge : edges->second) Enter(view, edge, node, nullptr, rules);
  SortUnique(before, rules);
}

template <typename View>
void DiscriminationNet::Enter(const View& view, const Edge& edge, NodeId node, const Pending* rest,
                              std::vector<int>* rules) const {
  const std::vector<Value>& operands = view.arena().node(node).operands;
  if (edge.operands < 0) return Walk(view, edge.next, {nullptr, nullptr, rest}, rules);
  if (operands.size() != static_cast<size_t>(edge.operands)) return;
  Walk(view, edge.next, {operands.data(), operands.data() + operands.size(), rest}, rules);
}

template <typename View>
void DiscriminationNet::Walk(const View& view, int state, Pending pending, std::vector<int>* rules) const {
  const State& at = states_[state];
  while (pending.next == pending.end) {
    if (pending.rest == nullptr) {
      rules->insert(rules->end(), at.rules.begin(), at.rules.end());
      return;
    }
    pending = *pending.rest;
  }
  const Value value = *pending.next++;
  for (const Edge& edge : at.edges) {
    if (edge.test == Test::kApplication) {
      view.ForEachProducer(value, edge.output, edge.op,
                           [&](NodeId maker) { Enter(view, edge, maker, &pending, rules); });
      continue;
    }
    const Node& node = view.arena().node(value.node);
    const bool known = node.op == nullptr && view.arena().IsKnown(node);
    if (edge.test == Test::kAny || (edge.test == Test::kWeight ? view.arena().IsKnown(node) : known)) {
      Walk(view, edge.next, pending, rules);
    }
  }
}

}  // namespace rewright
