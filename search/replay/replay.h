// The path of a search in terms that outlive it: the rule of each step, the node, and the number of the match there.
// From these, the original graph and the rules, every graph of the path is made again, in another process or on another
// machine.
//
// A step of a search need not be a match: equality saturation puts an extracted graph in the place of another. Such a
// step is taken apart into matches, of the rules that it names, that lead to the same graph. If a short search finds
// none, the replacement is written down as text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search/search.h"
#include "substitutions/match/matcher.h"

namespace rewright {

struct ReplayStep {
  std::string rule;         // or several, with kRuleSeparator between them, where `replacement` is given
  int node = 0;             // position of the rule's first output in Graph::nodes() of the graph before
  int match = 0;            // number among the rule's matches there
  std::string replacement;  // search/replay/replacement_text.h; empty: it is a match
  uint64_t graph_hash = 0;  // CanonicalHash() of the graph after
  int made_by = 0;          // position in the path; several steps may stem from one of it
};

// The rule of that name; null where there is none.
const Matcher* FindMatcher(const RuleIndex& rules, const std::string& name);

// The steps at `path` of the trace, which lead from `original` (in its arena). Each takes the time of the whole graph:
// DeadlineExceeded where `stop`, asked before each, says so.
absl::StatusOr<std::vector<ReplayStep>> MakeReplay(const Graph& original, const std::vector<TraceStep>& trace,
                                                   const std::vector<int>& path, const RuleIndex& rules,
                                                   const std::function<bool()>& stop = nullptr);

// The graphs of a path, made again.
class Replay {
 public:
  // Errors name the step (from 1): the rules lack its rule, the rule does not match where it did, the replacement is
  // none of the graph, the graph that is made is another one, `stop` says so.
  static absl::StatusOr<Replay> Run(const Graph& original, const std::vector<ReplayStep>& steps,
                                    const RuleIndex& rules, const std::function<bool()>& stop = nullptr);

  int num_steps() const { return static_cast<int>(roots_.size()) - 1; }
  // The graph after `steps` steps; 0: the original.
  Graph At(int steps) const;

 private:
  explicit Replay(const Graph& original) : original_(original), roots_{original.outputs()} {}

  Graph original_;
  std::vector<std::vector<Output>> roots_;  // the original's first
};

// Bisection: a step after which the graph is bad and before which it is not, numbered from 1; 0 when the graph after
// all `steps` is not bad. The graph before all steps is not asked about: it is the standard.
absl::StatusOr<int> FirstBadStep(int steps, const std::function<absl::StatusOr<bool>(int)>& is_bad);

}  // namespace rewright
