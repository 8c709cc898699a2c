// The layout of a described model whose step is the shortest on a cluster.
//
// All layouts of dp, tp, pp, micro-batches, ZeRO, schedule, recomputation and offloading are listed, with a bound of
// their time and of their memory (BoundsOf). Those that may fit are simulated in the order of their bounds, until no
// bound is shorter than the best step found: then it is the shortest of all. GPipe is left out: its steps are those of
// 1F1B, with more memory.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/described/described_plan.h"

namespace rewright::distributed {

struct LayoutSearchOptions {
  int devices = 1;
  bool overlap = false;  // DescribedLayout, of all layouts
  SimulationOptions simulation = {.collectives = CollectiveBy::kRing, .spans = false};
  int64_t most_simulated = 60;  // steps, and 20 times as many until one fits; 0: as many as there are
};

struct FoundLayout {
  DescribedLayout layout;
  DescribedTime time;
};

struct LayoutSearch {
  std::vector<FoundLayout> found;  // that were simulated and fit, the shortest step first
  int64_t layouts = 0;             // that were listed
  int64_t fitting = 0;             // whose bound of memory fits
  int64_t simulated = 0;
  bool complete = false;  // no other layout is shorter
};

// All layouts of exactly so many devices that the model's sizes and the nodes of the cluster permit.
std::vector<DescribedLayout> ListLayouts(const DescribedModel& model, const Cluster& cluster, int devices,
                                         bool overlap);

// Data parallel without more (dp of all devices) is always among the simulated layouts where it fits. Errors: no layout
// fits into the memory of the devices; the message has the least that one needs.
absl::StatusOr<LayoutSearch> SearchLayouts(const DescribedModel& model, const Cluster& cluster,
                                           const LayoutSearchOptions& options);

}  // namespace rewright::distributed
