#include "search/replay/replay.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "search/replay/replacement_text.h"
#include "substitutions/match/applier.h"

namespace rewright {

const Matcher* FindMatcher(const RuleIndex& rules, const std::string& name) {
  for (const auto& matcher : rules.matchers()) {
    if (matcher->rule().name() == name) return matcher.get();
  }
  return nullptr;
}

namespace {

// A match that leads from one graph to another.
struct Move {
  ReplayStep step;
  Graph after;
};

// Takes a step of a search apart into matches of the rules that it names.
//
// Nodes are shared by the graphs of an arena, so two graphs have in common the nodes that are in both. A node that is
// not in the wanted graph is foreign. The search goes depth first, with matches first after which fewer nodes than
// before are foreign; inputs come first, for every node downstream of a difference is foreign. A few matches in a row
// may do without such progress. This finds derivations whose graphs in between are not much larger, which is usual for
// rewriting towards a cheaper graph.
class Derivation {
 public:
  Derivation(const Graph& to, std::vector<const Matcher*> rules) : to_(to), rules_(std::move(rules)) {}

  std::optional<std::vector<Move>> From(const Graph& from) {
    if (!Reach(from, Foreign(from), kDetour)) return std::nullopt;
    return std::move(moves_);
  }

 private:
  // Matches in a row without progress.
  static constexpr int kDetour = 2;
  // Nodes of graphs that are made and compared, in all: a fraction of a second.
  static constexpr int64_t kMaxNodes = 200000;

  bool IsThere(const Graph& graph) const {
    for (size_t k = 0; k < to_.outputs().size(); ++k) {
      if (graph.outputs()[k].value != to_.outputs()[k].value) return false;
    }
    return true;
  }

  int Foreign(const Graph& graph) const {
    return static_cast<int>(
        std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) { return !to_.contains(id); }));
  }

  // Continues moves_ from `graph`, of which `foreign` nodes are foreign.
  bool Reach(const Graph& graph, int foreign, int detour) {
    if (IsThere(graph)) return true;
    if (ReachBy(graph, [&](const Graph& after, int left) { return left < foreign && Reach(after, left, kDetour); })) {
      return true;
    }
    return detour > 0 && ReachBy(graph, [&](const Graph& after, int left) {
             return left >= foreign && Reach(after, left, detour - 1);
           });
  }

  template <typename GoOn>
  bool ReachBy(const Graph& graph, GoOn go_on) {
    for (NodeId id : graph.nodes()) {
      const Node& node = graph.node(id);
      if (!graph.IsRun(node) || to_.contains(id)) continue;
      for (const Matcher* rule : rules_) {
        std::vector<Match> matches;
        rule->MatchAt(graph, id, &matches);
        for (size_t i = 0; i < matches.size(); ++i) {
          if ((looked_at_ += static_cast<int64_t>(graph.nodes().size())) > kMaxNodes) return false;
          const absl::StatusOr<Graph> after = ApplyMatch(graph, matches[i], &numerics_);
          if (!after.ok()) continue;
          moves_.push_back({{rule->rule().name(), graph.index(id), static_cast<int>(i)}, *after});
          if (go_on(*after, Foreign(*after))) return true;
          moves_.pop_back();
        }
      }
    }
    return false;
  }

  const Graph& to_;
  const std::vector<const Matcher*> rules_;
  Numerics numerics_;
  std::vector<Move> moves_;
  int64_t looked_at_ = 0;
};

// The match that makes the same replacement.
std::optional<ReplayStep> Locate(const Graph& graph, const Matcher& matcher, const ValueMap& replacement) {
  std::vector<NodeId> places;  // the replaced values first: one of them is the rule's first output, as a rule
  for (const auto& [from, to] : replacement) places.push_back(from.node);
  std::sort(places.begin(), places.end());
  for (NodeId place : places) {
    if (!graph.contains(place) || graph.node(place).op == nullptr) continue;
    std::vector<Match> matches;
    matcher.MatchAt(graph, place, &matches);
    for (size_t i = 0; i < matches.size(); ++i) {
      const absl::StatusOr<ValueMap> made = BuildReplacement(graph, matches[i]);
      if (made.ok() && *made == replacement) {
        return ReplayStep{matcher.rule().name(), graph.index(place), static_cast<int>(i)};
      }
    }
  }
  return std::nullopt;
}

// The steps that lead from one graph to the next.
std::vector<ReplayStep> StepsOf(const Graph& graph, const Graph& next, const TraceStep& made,
                                const ValueMap& replacement, const RuleIndex& rules) {
  std::vector<const Matcher*> named;
  for (absl::string_view name : absl::StrSplit(made.rule, kRuleSeparator)) {
    if (const Matcher* rule = FindMatcher(rules, std::string(name))) named.push_back(rule);
  }
  if (named.size() == 1) {
    if (std::optional<ReplayStep> step = Locate(graph, *named[0], replacement)) return {*std::move(step)};
  }
  std::vector<ReplayStep> steps;
  if (const std::optional<std::vector<Move>> moves = Derivation(next, named).From(graph)) {
    for (const Move& move : *moves) {
      steps.push_back(move.step);
      steps.back().graph_hash = move.after.CanonicalHash();
    }
  } else {
    ReplayStep& step = steps.emplace_back();
    step.rule = made.rule;
    step.replacement = PrintReplacement(graph, replacement);
  }
  return steps;
}

// Error without the number of the step.
absl::StatusOr<Graph> CarryOut(const Graph& graph, const ReplayStep& step, const RuleIndex& rules) {
  if (!step.replacement.empty()) {
    absl::StatusOr<ValueMap> replacement = ParseReplacement(graph, step.replacement);
    if (!replacement.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("replacement: ", replacement.status().message()));
    }
    return ReplaceValues(graph, *replacement);
  }
  const Matcher* matcher = FindMatcher(rules, step.rule);
  if (matcher == nullptr) return absl::FailedPreconditionError(absl::StrCat("the rules have no rule ", step.rule));
  std::vector<Match> matches;
  if (step.node >= 0 && step.node < static_cast<int>(graph.nodes().size())) {
    const NodeId id = graph.nodes()[step.node];
    if (graph.node(id).op != nullptr) matcher->MatchAt(graph, id, &matches);
  }
  if (step.match < 0 || step.match >= static_cast<int>(matches.size())) {
    return absl::FailedPreconditionError(
        absl::StrCat("rule ", step.rule, " does not match at node ", step.node, " any more"));
  }
  return ApplyMatch(graph, matches[step.match]);
}

absl::Status Stopped() { return absl::DeadlineExceededError("no time was left to make its steps again"); }

}  // namespace

absl::StatusOr<std::vector<ReplayStep>> MakeReplay(const Graph& original, const std::vector<TraceStep>& trace,
                                                   const std::vector<int>& path, const RuleIndex& rules,
                                                   const std::function<bool()>& stop) {
  std::vector<ReplayStep> steps;
  Graph graph = original;
  for (size_t i = 0; i < path.size(); ++i) {
    if (stop && stop()) return Stopped();
    const TraceStep& made = trace[path[i]];
    const ValueMap replacement(made.replacement.begin(), made.replacement.end());
    absl::StatusOr<Graph> next = ReplaceValues(graph, replacement);
    if (!next.ok()) return next.status();
    for (ReplayStep& step : StepsOf(graph, *next, made, replacement, rules)) {
      step.made_by = static_cast<int>(i);
      steps.push_back(std::move(step));
    }
    graph = *std::move(next);
    steps.back().graph_hash = graph.CanonicalHash();
  }
  return steps;
}

absl::StatusOr<Replay> Replay::Run(const Graph& original, const std::vector<ReplayStep>& steps, const RuleIndex& rules,
                                   const std::function<bool()>& stop) {
  Replay replay(original);
  Graph graph = original;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (stop && stop()) return Stopped();
    const ReplayStep& step = steps[i];
    const auto error = [&](const std::string& what) {
      return absl::FailedPreconditionError(absl::StrCat("step ", i + 1, " of ", steps.size(), ": ", what));
    };
    absl::StatusOr<Graph> next = CarryOut(graph, step, rules);
    if (!next.ok()) return error(std::string(next.status().message()));
    graph = *std::move(next);
    if (graph.CanonicalHash() != step.graph_hash) {
      return error(absl::StrCat(step.replacement.empty() ? "rule " : "the replacement by ", step.rule,
                                " makes another graph than it did"));
    }
    replay.roots_.push_back(graph.outputs());
  }
  return replay;
}

Graph Replay::At(int steps) const { return Graph(original_.arena(), original_.inputs(), roots_[steps]); }

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
