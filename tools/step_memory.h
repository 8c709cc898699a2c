// The memory of a step of training, and what is computed again so that it takes less.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/device.h"
#include "core/ir/graph.h"
#include "runtime/parallel/rank_graph.h"
#include "search/recompute.h"

namespace rewright {

// By the plan of the schedule that the device compiles.
struct StepMemory {
  RunPlan run;                       // `bytes`: states, activations and gradients
  int64_t state_bytes = 0;           // weights, and what the optimizer keeps
  int64_t live_bytes = 0;            // the largest sum of live tensors beside them
  std::vector<std::string> largest;  // that are alive then: "6.3 MB f32[512,3072] of matmul"
};
absl::StatusOr<StepMemory> MemoryOf(const Graph& graph, Device& device);
// Likewise of a rank's part of a graph where that runs as `graph`, in stages (runtime/parallel/stages.h).
absl::StatusOr<StepMemory> MemoryOfPart(const RankGraph& part, const Graph& graph, Device& device);

// What is free is computed again where that lowers the peak. `limit` 0: no more than that; else as much as it takes for
// RunPlan::bytes not to exceed it, by measured costs or, without `measured`, by a guess. Error: the limit cannot be
// reached.
//
// `arena_bytes`: what a graph takes beside its states where it does not run as one; null: the arena of its schedule.
absl::StatusOr<Recomputation> WithinMemory(
    const Graph& graph, Device& device, int64_t limit, bool measured,
    const std::function<absl::StatusOr<int64_t>(const Graph&)>& arena_bytes = nullptr);

// The same for a rank's part of a graph that several compute together, by a guess of costs.
absl::StatusOr<Recomputation> WithinMemory(const RankGraph& part, Device& device, int64_t limit);

}  // namespace rewright
