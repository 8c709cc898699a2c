#include "substitutions/egraph/reverse_rule.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "substitutions/language/rule_terms.h"
#include "substitutions/language/siblings.h"
#include "substitutions/match/applier.h"

namespace rewright {
Rule ReverseRule(const Rule& rule) {
  if (IsSiblingRule(rule)) return ReverseRule(ExpandSiblings(rule, 2));
  Rule reversed = rule;
  DeclaredVariables variables;
  ForEachTerm(reversed.lhs, [&](TensorTerm& term) { CollectDeclarations(term, variables); });
  std::swap(reversed.lhs, reversed.rhs);
  reversed.name += " (from right to left)";
  reversed.proof.reset();
  std::set<std::string> seen;
  ForEachTerm(reversed.lhs, [&](TensorTerm& term) { PlaceDeclarations(term, variables, seen); });
  ForEachTerm(reversed.rhs, [&](TensorTerm& term) { PlaceDeclarations(term, variables, seen); });
  return reversed;
}

std::shared_ptr<const Matcher> ReverseMatcher(const Matcher& forward) {
  auto rule = CompileRule(ReverseRule(forward.rule().rule()));
  if (!rule.ok()) return nullptr;
  return std::make_shared<const Matcher>(*std::move(rule), forward.limits());
}

bool LeadsBack(EGraph& egraph, const Matcher& forward, const Match& match, const ValueMap& replacement) {
  std::vector<Output> left;
  std::vector<Value> roots;
  for (Value root : match.roots) {
    const auto it = replacement.find(root);
    if (it == replacement.end()) return false;
    left.push_back(Output{it->second, ""});
    roots.push_back(it->second);
  }
  const Graph graph(egraph.arena(), {}, std::move(left));
  std::vector<Match> matches;
  forward.MatchAt(graph, roots[0].node, &matches);
  return std::any_of(matches.begin(), matches.end(), [&](const Match& back) {
    if (back.roots != roots) return false;
    const absl::StatusOr<ValueMap> right = BuildReplacement(*egraph.arena(), back);
    if (!right.ok()) return false;
    for (size_t k = 0; k < roots.size(); ++k) {
      const auto it = right->find(roots[k]);
      if (!egraph.Equal(egraph.Add(it == right->end() ? roots[k] : it->second), match.roots[k])) return false;
    }
    return true;
  });
}

}  // namespace rewright
