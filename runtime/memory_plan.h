// Memory plans: offsets of a schedule's activations in one arena.
//
// A schedule is static, so lifetimes are known before it runs: a buffer lives from the first step that touches it to
// the last one, and so does a buffer that others are views of. Two buffers may share bytes exactly when their
// lifetimes do not meet. Finding the smallest arena is dynamic storage allocation, which is NP-hard; the greedy
// orders below are those of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020),
// and the best of them is within a few per cent of the floor on real models.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/device.h"

namespace rewright {

inline constexpr int64_t kArenaAlignment = 64;

// Something to place: `bytes` during the steps first..last, both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  // one per lifetime, multiples of kArenaAlignment
  int64_t arena_bytes = 0;
};

// No two lifetimes that meet overlap in memory. Deterministic.
Placement PlaceLifetimes(const std::vector<Lifetime>& lifetimes);

// The largest sum of bytes that are live at one step: no placement can be smaller.
int64_t PeakLiveBytes(const std::vector<Lifetime>& lifetimes);

// Where a buffer is: `offset` bytes from the start of buffer `root`, which is no view.
struct ResolvedBuffer {
  int root = 0;
  int64_t offset = 0;
};

struct MemoryPlan {
  std::vector<ResolvedBuffer> resolved;  // one per buffer of the schedule
  // One per buffer: bytes from the start of the arena for a planned root; -1 for views, buffers that hold no
  // activation, and activations that no step touches.
  std::vector<int64_t> offsets;
  int64_t arena_bytes = 0;
  int64_t peak_live_bytes = 0;
};

// Errors (a fault of the device that made the schedule): a buffer id out of range, a view that reaches outside what it
// views, views in a cycle.
absl::StatusOr<MemoryPlan> PlanMemory(const Schedule& schedule);

}  // namespace rewright
