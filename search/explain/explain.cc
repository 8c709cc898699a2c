#include "search/explain/explain.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "search/optimize/decisions.h"
#include "search/strategies/match_site.h"
#include "substitutions/match/applier.h"

namespace rewright {
namespace {

class Explainer {
 public:
  Explainer(const Graph& graph, const RuleIndex& rules, CostModel& costs, const ExplainQuery& query)
      : graph_(graph), rules_(rules), numerics_(query.numerics), estimator_(costs, query.radius) {}

  // Nothing where the rule's first operator is not that of the node.
  void Explain(int rule, NodeId node, std::vector<RuleAtNode>* answers) {
    const Matcher& matcher = *rules_.matchers()[static_cast<size_t>(rule)];
    if (graph_.node(node).op != matcher.root_op()) return;
    std::vector<Match> matches;
    MatchObstacle obstacle;
    matcher.MatchAt(graph_, node, &matches, &obstacle);
    for (const Match& match : matches) answers->push_back(OfMatch(rule, node, match));
    if (!matches.empty()) return;
    RuleAtNode answer{rule, node};
    answer.fit = obstacle.complete ? Fit::kCondition : Fit::kPart;
    answer.place = ValueText(graph_, Value{node, 0});
    answer.matched = obstacle.matched;
    answer.of = NumOperators(matcher.rule());
    answer.at = obstacle.complete || obstacle.at.node < 0 ? "" : ValueText(graph_, obstacle.at);
    answer.reason = std::move(obstacle.reason);
    answers->push_back(std::move(answer));
  }

 private:
  static int NumOperators(const CompiledRule& rule) {
    int count = 0;
    for (int i = 0; i < rule.num_lhs_nodes(); ++i) count += rule.nodes()[static_cast<size_t>(i)].op != nullptr ? 1 : 0;
    return count;
  }

  static std::vector<NodeId> Covered(const Match& match) {
    std::vector<NodeId> nodes;
    for (size_t i = 0; i < match.nodes.size(); ++i) {
      if (match.rule->nodes()[i].op != nullptr) nodes.push_back(match.nodes[i].node);
    }
    return nodes;
  }

  RuleAtNode OfMatch(int rule, NodeId node, const Match& match) {
    RuleAtNode answer{rule, node};
    answer.matched = answer.of = NumOperators(*match.rule);
    answer.place =
        absl::StrJoin(match.roots, ", ", [&](std::string* out, Value root) { out->append(ValueText(graph_, root)); });
    const absl::StatusOr<ValueMap> replacement = BuildReplacement(graph_, match, &numerics_);
    if (!replacement.ok()) {
      answer.fit = Fit::kRefused;
      answer.reason = std::string(replacement.status().message());
      return answer;
    }
    const std::optional<Rewrite> rewrite = RewriteOf(graph_, rule, match, *replacement);
    if (!rewrite) {
      answer.fit = Fit::kRefused;
      answer.reason = "both sides are the same here";
      return answer;
    }
    answer.fit = Fit::kApplies;
    answer.covered = Covered(match);
    const absl::StatusOr<SiteEstimate> estimate = estimator_.Judge(graph_, *rewrite);
    if (estimate.ok()) {
      answer.seconds = estimate->delta;
    } else {
      answer.fit = Fit::kNotRunning;
      answer.reason = std::string(estimate.status().message());
    }
    return answer;
  }

  const Graph& graph_;
  const RuleIndex& rules_;
  Numerics numerics_;
  SiteEstimator estimator_;
};

}  // namespace

const char* FitName(Fit fit) {
  switch (fit) {
    case Fit::kApplies: return "applies";
    case Fit::kNotRunning: return "not-running";
    case Fit::kRefused: return "refused";
    case Fit::kCondition: return "condition";
    case Fit::kPart: return "part";
  }
  return "?";
}

std::vector<RuleAtNode> ExplainRules(const Graph& graph, const RuleIndex& rules, CostModel& costs,
                                     const ExplainQuery& query) {
  if (query.keep_roundings) KeepRoundings(graph);
  std::vector<int> numbers = query.rules;
  if (numbers.empty()) {
    numbers.resize(rules.matchers().size());
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  Explainer explainer(graph, rules, costs, query);
  std::vector<RuleAtNode> answers;
  for (const int rule : numbers) {
    for (NodeId node : query.nodes.empty() ? graph.nodes() : query.nodes) {
      if (graph.IsRun(graph.node(node))) explainer.Explain(rule, node, &answers);
    }
  }
  return answers;
}

double SavedAtMost(std::vector<const RuleAtNode*> places) {
  std::stable_sort(places.begin(), places.end(),
                   [](const RuleAtNode* a, const RuleAtNode* b) { return a->seconds < b->seconds; });
  std::set<NodeId> taken;
  double saved = 0;
  for (const RuleAtNode* place : places) {
    const auto is_taken = [&](NodeId id) { return taken.contains(id); };
    if (place->seconds >= 0 || std::any_of(place->covered.begin(), place->covered.end(), is_taken)) continue;
    taken.insert(place->covered.begin(), place->covered.end());
    saved -= place->seconds;
  }
  return saved;
}

}  // namespace rewright
