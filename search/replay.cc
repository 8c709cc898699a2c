#include "search/replay.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

const Matcher* FindRule(const RuleIndex& rules, const std::string& name) {
  for (const auto& matcher : rules.matchers()) {
    if (matcher->rule().name() == name) return matcher.get();
  }
  return nullptr;
}

bool IsReplacement(const Graph& graph, const Match& match, const ValueMap& replacement) {
  const absl::StatusOr<ValueMap> made = Instantiate(graph, match);
  return made.ok() && *made == replacement;
}

// The node and number of the match that replaces what `replacement` does; false when there is none.
bool Locate(const Graph& graph, const Matcher& matcher, const ValueMap& replacement, ReplayStep* step) {
  std::vector<NodeId> places;  // the replaced values first: one of them is the rule's first output, as a rule
  for (const auto& [from, to] : replacement) places.push_back(from.node);
  std::sort(places.begin(), places.end());
  places.insert(places.end(), graph.nodes().begin(), graph.nodes().end());
  for (NodeId place : places) {
    if (!graph.contains(place) || graph.node(place).op == nullptr) continue;
    std::vector<Match> matches;
    matcher.MatchAt(graph, place, &matches);
    for (size_t i = 0; i < matches.size(); ++i) {
      if (!IsReplacement(graph, matches[i], replacement)) continue;
      step->node = graph.index(place);
      step->match = static_cast<int>(i);
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<ReplayStep>> MakeReplay(const Graph& original, const std::vector<TraceStep>& trace,
                                                   const std::vector<int>& path, const RuleIndex& rules) {
  std::vector<ReplayStep> steps;
  Graph graph = original;
  for (int at : path) {
    const TraceStep& made = trace[static_cast<size_t>(at)];
    const ValueMap replacement(made.replacement.begin(), made.replacement.end());
    ReplayStep step;
    step.rule = made.rule;
    const Matcher* matcher = FindRule(rules, made.rule);
    if (matcher == nullptr || !Locate(graph, *matcher, replacement, &step)) {
      return absl::NotFoundError(absl::StrCat("step ", steps.size() + 1, " (", made.rule, " at ", made.place,
                                              ") is no match of its rule"));
    }
    absl::StatusOr<Graph> next = ReplaceValues(graph, replacement);
    if (!next.ok()) return next.status();
    graph = *std::move(next);
    step.graph_hash = graph.CanonicalHash();
    steps.push_back(std::move(step));
  }
  return steps;
}

absl::StatusOr<Replay> Replay::Run(const Graph& original, const std::vector<ReplayStep>& steps,
                                   const RuleIndex& rules) {
  Replay replay(original);
  Graph graph = original;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ReplayStep& step = steps[i];
    const auto error = [&](const std::string& what) {
      return absl::FailedPreconditionError(absl::StrCat("step ", i + 1, " of ", steps.size(), ": ", what));
    };
    const Matcher* matcher = FindRule(rules, step.rule);
    if (matcher == nullptr) return error(absl::StrCat("the rules have no rule ", step.rule));
    std::vector<Match> matches;
    if (step.node >= 0 && step.node < static_cast<int>(graph.nodes().size())) {
      const NodeId id = graph.nodes()[static_cast<size_t>(step.node)];
      if (graph.node(id).op != nullptr) matcher->MatchAt(graph, id, &matches);
    }
    if (step.match < 0 || step.match >= static_cast<int>(matches.size())) {
      return error(absl::StrCat("rule ", step.rule, " does not match at node ", step.node, " any more"));
    }
    absl::StatusOr<Graph> next = ApplyMatch(graph, matches[static_cast<size_t>(step.match)]);
    if (!next.ok()) return error(std::string(next.status().message()));
    graph = *std::move(next);
    if (graph.CanonicalHash() != step.graph_hash) {
      return error(absl::StrCat("rule ", step.rule, " makes another graph than it did"));
    }
    replay.roots_.push_back(graph.outputs());
  }
  return replay;
}

Graph Replay::At(int steps) const {
  return Graph(original_.arena(), original_.inputs(), roots_[static_cast<size_t>(steps)]);
}

absl::StatusOr<int> FirstBadStep(int steps, const std::function<absl::StatusOr<bool>(int)>& is_bad) {
  if (steps == 0) return 0;
  absl::StatusOr<bool> all = is_bad(steps);
  if (!all.ok()) return all.status();
  if (!*all) return 0;
  int good = 0, bad = steps;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    const absl::StatusOr<bool> answer = is_bad(middle);
    if (!answer.ok()) return answer.status();
    (*answer ? bad : good) = middle;
  }
  return bad;
}

}  // namespace rewright
