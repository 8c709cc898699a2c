// A path of rewrites without some of its steps: those that gain nothing, and those that its user does not want.
//
// A rewrite that gains nothing changes a file for nothing: the runtime of the file may know the form that was read, and
// have a kernel for it. The baseline's rewrites are made without regard to costs.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost_model.h"
#include "search/replay/resize.h"

namespace rewright {

// Rewrites that gain less than this share, all together, gain nothing. Those that make new weights of a kilobyte and
// more have to gain more than measured costs err by; described costs do not err.
inline constexpr double kGainOfNothing = 0.003;
inline constexpr double kGainOfNewWeights = 0.01;

struct ReducedPath {
  Graph graph;
  std::vector<TraceStep> steps;  // one behind the other; the first starts from the original
};

// `made` is `steps` replayed on `original`; `trace` at `path` are the same steps as the search took them. Steps that
// build on one that is left out go with it. `numerics`: facts of the arena of `original`, here and below.
absl::StatusOr<ReducedPath> WithoutSteps(const Graph& original, const Replay& made,
                                         const std::vector<ReplayStep>& steps, const std::set<int>& without,
                                         const std::vector<TraceStep>& trace, const std::vector<int>& path,
                                         const RuleIndex& rules, Numerics& numerics);

// Finds steps of rules without which the graph costs as much, runs no more nodes or needs fewer bytes of new weights,
// and has hardly more bytes of weights. It gives none if steps are replacements in text, or if the search would take
// long.
std::set<int> StepsForNothing(const Graph& original, const Replay& made, const std::vector<ReplayStep>& steps,
                              const RuleIndex& rules, CostModel& costs, Numerics& numerics);

}  // namespace rewright
