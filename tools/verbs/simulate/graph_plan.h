// The plan of a step of training from its graphs, without running it: what `rewright train` would do in a layout, with
// seconds by a described device.
#pragma once

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/plan.h"
#include "runtime/training/config.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/step.h"

namespace rewright {

struct GraphStep {
  distributed::Plan plan;
  int64_t kept_bytes = 0;  // of a rank: states that it keeps, whole or its blocks of them; the most of all ranks
};

// The lists are those of a run (parallel_step.h); subgraphs have the seconds of the cluster's device in f32, and the
// memory that `memory_of` has for them. Errors: fewer than two micro-batches, a layout with tp, whose collectives are
// inside of executables, a device that is not described.
absl::StatusOr<GraphStep> PlanOfGraphs(const TrainConfig& config, const TrainableModel& model, const RankLayout& layout,
                                       const distributed::Cluster& cluster, Device& memory_of);

}  // namespace rewright
