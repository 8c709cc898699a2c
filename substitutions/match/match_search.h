// Finds the places where a left side matches, in a graph or in an e-graph. Internal to matcher.cc and egraph/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/match/match_obstacle.h"
#include "substitutions/match/match_scope.h"
#include "substitutions/match/matcher.h"

namespace rewright {

// Assigns nodes of the left side in match_order(), with backtracking over the operands of commutative operators, the
// places of further outputs and, in an e-graph, the nodes of a class.
//
// A View is the graph that the search reads:
//   kUniqueProducer                        a value is computed by one node
//   arena()
//   Class(value)                           equal for values that are known to be equal
//   ForEachProducer(value, output, op, f)  calls f(node) for applications of op whose output `output` is in the class
//                                          of `value`
//   PlaceOf(node), NodeAt(place)           numbers that give nodes an order
//   AppendUsers(value, op, places)         applications of op that read the class of `value`
//   IsCyclic(rule, nodes)                  the complete assignment would close a cycle, which is not allowed
template <typename View>
class MatchSearch {
 public:
  // `obstacle`, where given, is set to what stopped the attempt that got furthest.
  MatchSearch(const Matcher& matcher, View view, std::vector<Match>* matches, MatchObstacle* obstacle = nullptr)
      : matcher_(matcher),
        rule_(*matcher.rule_),
        view_(std::move(view)),
        matches_(matches),
        obstacle_(obstacle),
        nodes_(static_cast<size_t>(rule_.num_lhs_nodes()), Value{}),
        wanted_(view_.kUniqueProducer ? 0 : nodes_.size()) {}

  void Run(NodeId root) {
    if (Choose(rule_.root(0), root)) Step(0);
  }

 private:
  // The value that an application which is not chosen yet must compute.
  struct Wanted {
    Value value;
    int32_t output = 0;
    bool only = false;  // it must have no other output
  };

  const RuleNode& pattern(int id) const { return rule_.nodes()[id]; }
  const Node& node(NodeId id) const { return view_.arena().node(id); }
  bool IsChosen(int id) const { return nodes_[id].node >= 0; }

  // Matches match_order()[k] and the nodes after it.
  void Step(size_t k) {
    if (k == rule_.match_order().size()) return Finish();
    const int id = rule_.match_order()[k];
    if (IsChosen(id)) return Application(k, id);
    if (view_.kUniqueProducer || wanted_[id].empty()) return FurtherRoot(k, id);
    const Wanted wanted = wanted_[id][0];
    view_.ForEachProducer(wanted.value, wanted.output, pattern(id).op, [&](NodeId maker) { Try(k, id, maker); });
  }

  void Try(size_t k, int id, NodeId chosen) {
    const size_t mark = trail_.size();
    if (Choose(id, chosen)) Application(k, id);
    Undo(mark);
  }

  // Finds an output that no earlier one leads down to: goes up from the node that they share.
  void FurtherRoot(size_t k, int id) {
    size_t root = 1;
    while (root < rule_.lhs().size() && (rule_.root(root) != id || rule_.entry_paths()[root].empty())) ++root;
    if (root == rule_.lhs().size()) return;
    const std::vector<int>& path = rule_.entry_paths()[root];
    std::vector<int> places;
    const bool leaf = pattern(path[0]).op == nullptr;
    AppendUsers(nodes_[path[0]], leaf, pattern(path[1]).op, &places);
    for (size_t step = 2; step < path.size(); ++step) {
      const std::vector<int> below = std::move(places);
      places.clear();
      for (int place : below) AppendUsers(Value{view_.NodeAt(place), 0}, false, pattern(path[step]).op, &places);
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    // Symmetric roots match twice, once in each order; only the match whose roots are in the order of places is kept.
    const Value before = nodes_[rule_.root(root - 1)];
    const int after = rule_.symmetric(root - 1) ? view_.PlaceOf(before.node) : -1;
    if (places.empty() || places.back() <= after) {
      return Missed(nodes_[path[0]],
                    [&] { return absl::StrCat("found no further ", pattern(id).op->name, " that reads it"); });
    }
    for (int place : places) {
      if (place > after) Try(k, id, view_.NodeAt(place));
    }
  }

  // Appends the users of a leaf's value, or of all outputs of an application.
  void AppendUsers(Value value, bool leaf, const OpDef* op, std::vector<int>* places) const {
    if (leaf || view_.kUniqueProducer) return view_.AppendUsers(value, op, places);
    const int32_t count = static_cast<int32_t>(node(value.node).outputs.size());
    for (int32_t output = 0; output < count; ++output) view_.AppendUsers(Value{value.node, output}, op, places);
  }

  void Application(size_t k, int id) {
    const RuleNode& wanted = pattern(id);
    const std::vector<Value>& operands = node(nodes_[id].node).operands;
    const bool spread =
        std::any_of(wanted.operands.begin(), wanted.operands.end(), [](const RuleValue& v) { return v.all; });
    if (!spread && operands.size() != wanted.operands.size()) {
      return Missed(nodes_[id], [&] {
        return absl::StrCat("expected ", wanted.op->name, " with ", wanted.operands.size(), " operands, found ",
                            operands.size());
      });
    }
    Operands(k, wanted, operands, 0, 0);
    const bool exchange = wanted.op->commutative && operands.size() == 2 && operands[0] != operands[1];
    if (exchange) Operands(k, wanted, {operands[1], operands[0]}, 0, 0);
  }

  // Matches operands `at`.. with those from the i-th of the pattern on, and then the rest of the pattern.
  void Operands(size_t k, const RuleNode& user, const std::vector<Value>& operands, size_t i, size_t at) {
    const size_t mark = trail_.size();
    for (; i < user.operands.size() && at < operands.size() && !user.operands[i].all; ++i, ++at) {
      if (!Operand(user.operands[i], operands[at])) return Undo(mark);
    }
    if (i == user.operands.size() && at == operands.size()) {
      Step(k + 1);
    } else if (i < user.operands.size() && at < operands.size()) {
      AllOutputs(k, user, operands, i, at);
    }
    Undo(mark);
  }

  // The i-th operand of the pattern stands for all outputs of an application.
  void AllOutputs(size_t k, const RuleNode& user, const std::vector<Value>& operands, size_t i, size_t at) {
    const int id = user.operands[i].node;
    Missed(operands[at], [&] { return absl::StrCat("expected all outputs of ", pattern(id).op->name, ", in order"); });
    view_.ForEachProducer(operands[at], 0, pattern(id).op, [&](NodeId maker) {
      const size_t count = node(maker).outputs.size();
      if (operands.size() - at < count) return;
      for (size_t output = 0; output < count; ++output) {
        if (view_.Class(Value{maker, static_cast<int32_t>(output)}) != operands[at + output]) return;
      }
      const size_t mark = trail_.size();
      if (Choose(id, maker)) Operands(k, user, operands, i + 1, at + count);
      Undo(mark);
    });
  }

  bool Operand(const RuleValue& wanted, Value found) {
    const size_t id = wanted.node;
    if (pattern(wanted.node).op == nullptr) return AssignLeaf(wanted.node, found);
    if constexpr (View::kUniqueProducer) {
      if (found.output != wanted.output || (wanted.whole && node(found.node).outputs.size() != 1)) {
        Missed(found,
               [&] { return absl::StrCat("expected output ", wanted.output, " of ", pattern(wanted.node).op->name); });
        return false;
      }
      return Choose(wanted.node, found.node);
    } else {
      const Wanted wish{found, wanted.output, wanted.whole};
      if (IsChosen(wanted.node)) return Makes(nodes_[id].node, wish);
      bool any = false;
      view_.ForEachProducer(found, wanted.output, pattern(wanted.node).op, [&](NodeId) { any = true; });
      if (!any) return false;
      wanted_[id].push_back(wish);
      trail_.push_back(~wanted.node);
      return true;
    }
  }

  bool Makes(NodeId maker, const Wanted& wish) const {
    const size_t count = node(maker).outputs.size();
    if (static_cast<size_t>(wish.output) >= count || (wish.only && count != 1)) return false;
    return view_.Class(Value{maker, wish.output}) == wish.value;
  }

  bool AssignLeaf(int id, Value value) {
    Value& place = nodes_[id];
    if (place.node >= 0) {
      if (place != value) Missed(value, [&] { return pattern(id).name + " would stand for two values"; });
      return place == value;
    }
    if (!CanBeLeaf(pattern(id), value)) {
      Missed(value,
             [&] { return absl::StrCat("expected a constant of equal elements ", PrintArg(*pattern(id).value)); });
      return false;
    }
    place = value;
    trail_.push_back(id);
    return true;
  }

  bool CanBeLeaf(const RuleNode& wanted, Value value) const {
    if (!wanted.value) return true;
    const Tensor* elements = view_.arena().KnownElements(value.node);
    if (elements == nullptr) return false;
    if (wanted.value->kind == ArgExpr::Kind::kInt) return AllElementsEqual(*elements, wanted.value->integer);
    if (wanted.value->kind == ArgExpr::Kind::kReal) return AllElementsEqual(*elements, wanted.value->real);
    // `?e` stands for a finite number: laws of arithmetic are not measured with an infinite one.
    return AllElementsSame(*elements) && std::isfinite(elements->At(0));
  }

  // Checks of an application that fail early.
  bool Choose(int id, NodeId chosen) {
    Value& place = nodes_[id];
    if (place.node >= 0) {
      if (place.node != chosen)
        Missed({chosen, 0}, [] { return std::string("expected the same value in both places"); });
      return place.node == chosen;
    }
    const Node& found = node(chosen);
    if (found.op != pattern(id).op) {
      Missed({chosen, 0}, [&] { return absl::StrCat("expected ", pattern(id).op->name, ", found ", KindOf(found)); });
      return false;
    }
    for (const auto& [name, attr] : matcher_.literals_[id]) {
      if (found.attrs.at(name) == attr) continue;
      Missed({chosen, 0}, [&, &name = name, &attr = attr] {
        return absl::StrCat("expected ", found.op->name, " with ", name, "=", AttrString(attr), ", found ",
                            AttrString(found.attrs.at(name)));
      });
      return false;
    }
    if constexpr (!View::kUniqueProducer) {
      for (const Wanted& wish : wanted_[id]) {
        if (!Makes(chosen, wish)) return false;
      }
    }
    place = Value{chosen, 0};
    trail_.push_back(id);
    return true;
  }

  void Undo(size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) {
      const int id = trail_.back();
      if (id >= 0) {
        nodes_[id] = Value{};
      } else {
        wanted_[~id].pop_back();
      }
    }
  }

  void Finish() {
    std::vector<Value> roots;
    std::string reason = "a result would be computed from itself";
    if (Roots(&roots) && !view_.IsCyclic(rule_, nodes_)) {
      std::optional<Match> match =
          matcher_.Complete(view_.arena(), std::move(roots), nodes_, obstacle_ == nullptr ? nullptr : &reason);
      if (match) return matches_->push_back(*std::move(match));
    }
    if (obstacle_ != nullptr && !obstacle_->complete) *obstacle_ = {Found(), true, {}, std::move(reason)};
  }

  // Applications of the left side that are chosen.
  int Found() const {
    int found = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) found += nodes_[i].node >= 0 && rule_.nodes()[i].op != nullptr ? 1 : 0;
    return found;
  }

  static std::string KindOf(const Node& node) {
    if (node.op != nullptr) return node.op->name;
    return node.leaf == LeafKind::kInput ? "the input " + node.name : "a weight or constant";
  }

  // The attempt ends at a value of the graph.
  template <typename Reason>
  void Missed(Value at, Reason reason) const {
    if (obstacle_ == nullptr || obstacle_->complete) return;
    const int found = Found();
    if (found > obstacle_->matched) *obstacle_ = {found, false, at, reason()};
  }

  bool Roots(std::vector<Value>* roots) const {
    for (const RuleValue& term : rule_.lhs()) {
      const NodeId root = nodes_[term.node].node;
      const int32_t count = static_cast<int32_t>(node(root).outputs.size());
      if (!term.whole && term.output >= count) return false;
      const int32_t begin = term.whole ? 0 : term.output;
      for (int32_t k = begin; k < (term.whole ? count : begin + 1); ++k) {
        if (std::find(roots->begin(), roots->end(), Value{root, k}) != roots->end()) return false;
        roots->push_back(Value{root, k});
      }
    }
    return true;
  }

  const Matcher& matcher_;
  const CompiledRule& rule_;
  const View view_;
  std::vector<Match>* matches_;
  MatchObstacle* const obstacle_;
  std::vector<Value> nodes_;                 // as Match::nodes
  std::vector<std::vector<Wanted>> wanted_;  // by node of the left side
  std::vector<int> trail_;                   // nodes that were assigned; ~id: one more of wanted_[id]
};

}  // namespace rewright
