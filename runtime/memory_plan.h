// Memory plans: offsets of a schedule's activations in one arena.
//
// A schedule is static, so lifetimes are known before it runs: a buffer lives from the first step that uses it to the
// last one, and so does a buffer that others are views of; steps that may run at the same time are one span of time.
// Two buffers may share bytes exactly when their lifetimes do not meet. States, and other buffers that callers ask for,
// lie behind the arena and share nothing. Buffers of the second tier have an arena there. Finding the smallest arena is
// dynamic storage allocation, which is NP-hard; the greedy orders below are those of Pisarchyk and Lee, "Efficient
// Memory Management for Deep Neural Net Inference" (2020), and the best of them is within a few per cent of the floor
// on real models.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/schedule.h"

namespace rewright {

inline constexpr int64_t kArenaAlignment = 64;

// Something to place: `bytes` during the steps first..last, both inclusive.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
  int64_t alignment = kArenaAlignment;  // a multiple of kArenaAlignment
};

struct Placement {
  std::vector<int64_t> offsets;  // one per lifetime, multiples of kArenaAlignment
  int64_t arena_bytes = 0;
};

// No two lifetimes that meet overlap in memory. Deterministic.
Placement PlaceLifetimes(const std::vector<Lifetime>& lifetimes);

// The largest sum of bytes that are live at one step: no placement can be smaller.
int64_t PeakLiveBytes(const std::vector<Lifetime>& lifetimes);
// The live bytes by step, up to one behind the last.
std::vector<int64_t> LiveBytes(const std::vector<Lifetime>& lifetimes);
// The first step at which most are live.
int FullestStep(const std::vector<Lifetime>& lifetimes);

struct PlanOptions {
  bool separate = false;   // no two buffers share memory
  bool externals = false;  // inputs and outputs have memory here, too
  bool constants = false;  // copies of the constants, too
  // For tests: memory is filled with 0xff before the first step and, buffer by buffer, after the last step that uses
  // it. Without it `separate` memory is filled with zeros.
  bool poison = false;
  // If not null, only these buffers get memory.
  const std::vector<int>* only = nullptr;
};

// The memory of one instance of a schedule.
struct MemoryPlan {
  PlanOptions options;
  std::vector<ResolvedBuffer> resolved;  // one per buffer of the schedule
  // One per buffer: bytes from the start of the memory; -1 for views, for buffers that lie elsewhere (constants, inputs
  // and outputs that were not asked for), and for activations that no step uses.
  std::vector<int64_t> offsets;           // of stored buffers: from the start of the second tier's arena
  std::vector<Lifetime> lifetimes;        // one per buffer; without bytes where it is not in the arena
  std::vector<Section> sections;          // of steps that may run at the same time
  std::vector<std::vector<int>> expires;  // by step: the planned buffers that it uses last
  int64_t arena_bytes = 0;                // what activations take
  int64_t peak_live_bytes = 0;
  int64_t bytes = 0;         // the arena, and what lies behind it
  int64_t stored_bytes = 0;  // of the second tier

  // Where what lies behind the arena begins, and how many bytes that is.
  int64_t behind_arena() const;
  int64_t behind_bytes() const { return std::max<int64_t>(0, bytes - behind_arena()); }
};

// Errors (a fault of the device that made the schedule): a buffer id out of range, a view that reaches outside what it
// views, views in a cycle, an alignment that no memory has, a step that reads what no step before it writes or writes
// an input or a constant.
absl::StatusOr<MemoryPlan> PlanMemory(const Schedule& schedule, const PlanOptions& options = {});

}  // namespace rewright
