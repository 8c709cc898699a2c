// The memory of a step of training, and what is computed again or offloaded so that it takes less.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/parallel/rank_graph.h"
#include "runtime/training/parallel/layered_plan.h"
#include "search/memory/rematerialization.h"

namespace rewright {

// The memory of a step by the plan of the schedule that the device compiles.
struct StepMemory {
  RunPlan run;                       // `bytes`: states, activations and gradients
  int64_t state_bytes = 0;           // weights and optimizer state
  int64_t live_bytes = 0;            // the largest sum of live tensors beside them
  std::vector<std::string> largest;  // that are alive then: "6.3 MB f32[512,3072] of matmul"
};
// The costs from which RunPlan::seconds follows; null: it is not known.
struct StepCosts {
  std::vector<double> seconds;  // by position in Graph::nodes()
  std::optional<SecondTier> second_tier;
};
absl::StatusOr<StepMemory> MemoryOf(const Graph& graph, Device& device, const StepCosts* costs = nullptr);
// The memory of a graph beside its states as one of several subgraphs, by itself or as a rank's part.
absl::StatusOr<SubgraphBytes> BytesOfSubgraph(const Graph& graph, Device& device);
absl::StatusOr<SubgraphBytes> BytesOfSubgraph(const RankGraph& part, Device& device);
// Likewise for a rank's part of a graph where that runs as `graph`, in segments (runtime/parallel/segments.h).
absl::StatusOr<StepMemory> MemoryOfPart(const RankGraph& part, const Graph& graph, Device& device);

// Values that are free to compute are computed again where that lowers the peak. `limit` 0: no others are; else as many
// as it takes for RunPlan::bytes not to exceed it, by measured costs or, without `measured`, by a guess; and where the
// device has a second tier, values wait there. Error: the limit cannot be reached.
absl::StatusOr<Rematerialization> FitMemory(const Graph& graph, Device& device, int64_t limit, bool measured);

// Likewise for a graph that does not run as one, but as `plan` says, whose bytes are all that the limit is for. Nothing
// waits in a second tier. What exceeds the limit is no error: the least that was reached is given. `pointwise_only`: as
// in RematerializeOptions.
absl::StatusOr<Rematerialization> FitPlan(const Graph& graph, Device& device, int64_t limit, bool measured,
                                          const std::function<absl::StatusOr<LayeredPlan>(const Graph&)>& plan,
                                          bool pointwise_only = false);
// The error of a limit that was not reached.
absl::Status Unreachable(const Rematerialization& least, Device& device, int64_t limit);

// The offloaded values, most bytes first: "12 x 9.4 MB f32[768,3072] of matmul".
std::vector<std::string> OffloadedTexts(const Rematerialization& found, const Graph& graph);

// The same for a rank's part of a graph that several compute together, by a guess of costs.
absl::StatusOr<Rematerialization> FitMemory(const RankGraph& part, Device& device, int64_t limit);

}  // namespace rewright
