// Which values of a step of training are computed again instead of being kept.
//
// By default what is free: pointwise functions of what is kept anyway, by a minimum cut between what is computed before
// and what is read behind the point at which most bytes wait. Under a limit, time is traded for memory: starts are the
// free plan and those that keep values at narrow places alone (Chen et al., "Training Deep Nets with Sublinear Memory
// Cost", 2016), for several numbers of segments; from each, what is alive at the fullest point and costs least time a
// byte is dropped until the plan fits, and then what saves most time a byte is kept again. Every plan is judged by the
// memory plan of the schedule that the device compiles, and by the seconds of its nodes.
//
// All replacements are by one proved law, after(x, t) = x (substitutions/rules/recomputation.rules). Values are the
// same bits wherever kernels are: a plan in which the device would fuse a product or a sum with other nodes than before
// is not taken.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/device.h"
#include "core/ir/graph.h"

namespace rewright {

inline constexpr char kRecomputationRule[] = "after-is-its-operand";

// How a device runs a graph in memory.
struct RunPlan {
  std::vector<Group> groups;  // in the order in which they run
  int64_t bytes = 0;          // that a run takes
  int fullest = 0;            // the group at which most bytes are live
};

struct RecomputeOptions {
  std::function<absl::StatusOr<RunPlan>(const Graph&)> plan;
  // By position in Graph::nodes(), measured or guessed.
  std::function<absl::StatusOr<std::vector<double>>(const Graph&)> seconds;
  std::optional<int64_t> limit;  // of RunPlan::bytes; none: only what is free is computed again
  int most_plans = 0;            // that are judged; 0: fewer for large graphs
};

struct Recomputation {
  Graph graph;
  int replaced = 0;  // uses of the law
  int64_t bytes_before = 0, bytes = 0;
  double seconds_before = 0, seconds = 0;
  int plans = 0;  // that were judged
};

// Where the limit cannot be reached: the plan of fewest bytes that was found. Errors: those of `plan` and `seconds`.
absl::StatusOr<Recomputation> Recompute(const Graph& graph, const RecomputeOptions& options);

}  // namespace rewright
