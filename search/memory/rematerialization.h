// Chooses the values of a step of training that are computed again, or put into a second tier of memory, instead of
// being kept.
//
// By default it drops values that cost nothing: pointwise functions of values that are kept anyway. A minimum cut
// chooses them, between the values computed before the point at which most bytes wait and those read behind it. Under a
// limit, time is traded for memory. Starts are the free plan and those that keep values at narrow places alone (Chen et
// al., "Training Deep Nets with Sublinear Memory Cost", 2016), for several numbers of segments. From each start, the
// values that are alive at the fullest points and cost least time a byte are dropped, or put into the second tier if
// there is one, until the plan fits. Then the values that save most time a byte are kept again. Every plan is judged by
// the memory plan of the schedule that the device compiles, and by its seconds.
//
// All replacements are by two proved laws, after(x, t) = x and fetch(x, t) = x
// (substitutions/rules/recomputation.rules). Values are the same bits wherever kernels are: a plan in which the device
// would fuse a product or a sum with other nodes than before is not taken.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright {

inline constexpr char kRecomputationRule[] = "after-is-its-operand";
inline constexpr char kOffloadRule[] = "fetch-is-its-operand";

// How a device runs a graph in memory.
struct RunPlan {
  std::vector<Group> groups;  // in the order in which they run
  int64_t bytes = 0;          // that a run takes
  int64_t stored_bytes = 0;   // of the second tier, beside them
  double seconds = 0;         // of a run, waiting for copies included
  std::vector<int64_t> live;  // by group, bytes that are alive while it runs
};

struct RematerializeOptions {
  std::function<absl::StatusOr<RunPlan>(const Graph&)> plan;
  // By position in Graph::nodes(), measured or guessed.
  std::function<absl::StatusOr<std::vector<double>>(const Graph&)> seconds;
  std::optional<int64_t> limit;  // of RunPlan::bytes; none: only free values are computed again
  std::optional<SecondTier> second_tier;
  // Nothing else is computed again: their bits do not depend on how a graph is cut.
  bool pointwise_only = false;
  int most_plans = 0;  // that are judged; 0: fewer for large graphs
};

struct Rematerialization {
  Graph graph;
  int replaced = 0;              // uses of the laws
  std::vector<Value> offloaded;  // of the graph that was given
  int64_t bytes_before = 0, bytes = 0, stored_bytes = 0;
  double seconds_before = 0, seconds = 0;
  int plans = 0;  // that were judged
};

// If the limit, or that of the second tier, cannot be reached, gives the plan that exceeds it least of those found.
// Errors: those of `plan` and `seconds`.
absl::StatusOr<Rematerialization> Rematerialize(const Graph& graph, const RematerializeOptions& options);

}  // namespace rewright
