// Joins matches of a rule for two siblings into matches for all siblings (siblings.h). Internal to matcher.cc and
// egraph/.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "substitutions/language/siblings.h"
#include "substitutions/match/matcher.h"

namespace rewright {

// Input: all matches of the two-sibling rule. Matches with the same first sibling agree in all that siblings have in
// common, so any of their siblings match one another. The group of the earliest sibling is that sibling plus all its
// partners. If some siblings have only weights as their own operands and others do not, the former also make a group of
// their own: the operands of the others would have to be concatenated in every run.
template <typename View>
class SiblingGroups {
 public:
  SiblingGroups(const Matcher& matcher, View view, std::vector<Match>* matches)
      : matcher_(matcher), view_(std::move(view)), matches_(matches), first_nodes_(matcher.rule().single_nodes()) {}

  // Appends to the matches of two, which stand from `begin` on, those of three and more.
  void Append(size_t begin) {
    const std::vector<Match> pairs(matches_->begin() + static_cast<std::ptrdiff_t>(begin), matches_->end());
    std::vector<bool> taken(pairs.size(), false);
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (taken[i]) continue;
      std::vector<const Match*> group, weights;
      for (size_t k = i; k < pairs.size(); ++k) {
        if (taken[k] || !SameFirst(pairs[i], pairs[k])) continue;
        taken[k] = true;
        if (group.size() + 1 < kMostSiblings && IsNew(pairs[k], group)) group.push_back(&pairs[k]);
      }
      for (const Match* pair : group) {
        if (OwnAreWeights(*pair)) weights.push_back(pair);
      }
      Join(group);
      if (weights.size() < group.size()) Join(weights);
    }
  }

 private:
  bool SameFirst(const Match& a, const Match& b) const {
    return std::equal(a.nodes.begin(), a.nodes.begin() + first_nodes_, b.nodes.begin());
  }

  // A sibling may match in several ways, and be equal to another.
  bool IsNew(const Match& pair, const std::vector<const Match*>& group) const {
    const auto same = [&](Value a, Value b) { return view_.Class(a) == view_.Class(b); };
    return !same(pair.roots[0], pair.roots[1]) && std::none_of(group.begin(), group.end(), [&](const Match* other) {
      return same(other->roots[1], pair.roots[1]);
    });
  }

  // True if the leaves that belong to only one of the two siblings are known: weights or constants.
  bool OwnAreWeights(const Match& pair) const {
    for (size_t id = 0; id < pair.nodes.size(); ++id) {
      const bool own = matcher_.rule().nodes()[id].op == nullptr && matcher_.rule().differs(static_cast<int>(id));
      if (own && !view_.arena().IsKnown(pair.nodes[id])) return false;
    }
    return true;
  }

  void Join(const std::vector<const Match*>& others) {
    if (others.size() < 2) return;
    const Matcher* const matcher = matcher_.ForSiblings(static_cast<int>(others.size()) + 1);
    if (matcher == nullptr) return;
    std::vector<Value> nodes(others[0]->nodes.begin(), others[0]->nodes.begin() + first_nodes_);
    std::vector<Value> roots = {others[0]->roots[0]};
    for (const Match* other : others) {
      nodes.insert(nodes.end(), other->nodes.begin() + first_nodes_, other->nodes.end());
      roots.push_back(other->roots[1]);
    }
    if (view_.IsCyclic(matcher->rule(), nodes)) return;
    std::optional<Match> match = matcher->Complete(view_.arena(), std::move(roots), nodes);
    if (match) matches_->push_back(*std::move(match));
  }

  const Matcher& matcher_;
  const View view_;
  std::vector<Match>* matches_;
  const std::ptrdiff_t first_nodes_;
};

}  // namespace rewright
