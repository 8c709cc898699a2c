#include "substitutions/lowering.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "substitutions/match/applier.h"

namespace rewright {
namespace {

// One replacement for every node that a rule matches at. kOutOfRange of an instantiation says that the rule does not
// apply there: the next one has its turn.
absl::Status Replacements(const Graph& graph, const RuleSet& rules, ValueMap* map, std::vector<Lowering::Step>* steps) {
  std::vector<int> candidates;
  std::vector<Match> matches;
  for (NodeId id : graph.nodes()) {
    if (graph.node(id).op == nullptr) continue;
    candidates.clear();
    rules.index().Candidates(graph, id, &candidates);
    bool replaced = false;
    for (int rule : candidates) {
      matches.clear();
      rules.matchers()[rule]->MatchAt(graph, id, &matches);
      for (const Match& match : matches) {
        const absl::StatusOr<ValueMap> values = BuildReplacement(graph, match);
        if (!values.ok() && values.status().code() == absl::StatusCode::kOutOfRange) continue;
        if (!values.ok()) return values.status();
        map->insert(values->begin(), values->end());
        steps->push_back({match.rule->name(), graph.node(id).op->name, match.Describe()});
        replaced = true;
        break;
      }
      if (replaced) break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Lowering> Lower(const Graph& graph, const RuleSet& rules) {
  for (const auto& matcher : rules.matchers()) {
    if (matcher->rule().lhs().size() == 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("rule ", matcher->rule().name(), ": found ",
                                                   matcher->rule().lhs().size(), " outputs, expected one"));
  }
  Lowering lowering{graph, {}};
  for (int round = 0; round < kMaxRounds; ++round) {
    ValueMap map;
    RETURN_IF_ERROR(Replacements(lowering.graph, rules, &map, &lowering.steps));
    if (map.empty()) return lowering;
    absl::StatusOr<Graph> lower = ReplaceEverywhere(lowering.graph, map);
    if (!lower.ok()) return lower.status();
    lowering.graph = *std::move(lower);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rules still apply after ", kMaxRounds, " rounds, at last ", lowering.steps.back().rule));
}

absl::StatusOr<Lowering> LowerGradients(const Graph& graph) {
  ASSIGN_OR_RETURN(const std::string file, FindRuleFile("gradients.rules"));
  // A sum of distances from a mean is replaced by 0, which removes its rounding, as it should.
  LoadOptions options;
  options.allow_finite_only = options.allow_risky = true;
  ASSIGN_OR_RETURN(const RuleSet rules, RuleSet::FromFiles({file}, options));
  return Lower(graph, rules);
}

}  // namespace rewright
