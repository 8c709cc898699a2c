// The plan of a step of a described model in a layout: tensors and subgraphs by sizes, seconds by the device, and lists
// by the generators (generate.h). The lists have the exchanges of tensor-parallel groups and the work of experts.
//
// Tensor parallel is that of Korthikanti et al. 2022: between products a rank has its block of the tokens. An
// ALL_GATHER stands before the first product of attention and of an MLP, a REDUCE_SCATTER behind the second; backward
// the gradients of weights are computed beside the latter, and gathers of what they read beside the other half.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/described/described_layout.h"
#include "runtime/distributed/described/described_model.h"
#include "runtime/distributed/plan.h"
#include "runtime/distributed/simulate.h"

namespace rewright::distributed {

struct DescribedStep {
  Plan plan;
  std::vector<int64_t> kept_bytes;  // by rank with a list: weights, or its part of them, and states of the optimizer
};

// Errors: sizes that the layout does not divide, nodes that groups do not fit evenly, a device that is not described.
absl::StatusOr<DescribedStep> PlanDescribed(const DescribedModel& model, const DescribedLayout& layout,
                                            const Cluster& cluster);

// The time of a step: simulated, or where it has many micro-batches a replica, from simulated steps with fewer of them:
// further micro-batches take equal times.
struct DescribedTime {
  SimulatedStep step;
  int64_t memory_bytes = 0;             // of the fullest rank, with kept_bytes
  int64_t simulated_micro_batches = 0;  // of a replica
};
absl::StatusOr<DescribedTime> TimeDescribed(const DescribedModel& model, const DescribedLayout& layout,
                                            const Cluster& cluster, const SimulationOptions& options);

// Bounds that need no lists.
struct DescribedBounds {
  double seconds = 0;  // no step is shorter
  int64_t bytes = 0;   // the fullest rank has no less
};
absl::StatusOr<DescribedBounds> BoundsOf(const DescribedModel& model, const DescribedLayout& layout,
                                         const Cluster& cluster, const SimulationOptions& options);

}  // namespace rewright::distributed
