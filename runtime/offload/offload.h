// Copies to a second tier of memory and back as steps of a schedule.
//
// Where a graph says fetch(x, t) (core/ops/after.cc), a device compiles a copy of x. Between the last other use of x
// and its copies nothing reads x. With a second tier they become steps, as a message is started and waited for:
//
//   start  x is copied to a buffer in the second tier, as soon as it is written
//   wait   for that; from here on x has no memory
//   start  it is copied back, to where a copy was to go
//   wait   for that, where that copy was
//
// Copies are done one after the other beside the other steps. When a copy is waited for, and how early one back begins,
// is what overlap costs in memory: both are moved away from each other as far as there is room. Lifetimes follow from
// the uses of buffers, as for all steps: one memory plan knows of everything.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/offload/two_tier_device.h"

namespace rewright {

// `fetches` are the steps that are such copies: of one buffer into another, byte for byte. A copy whose operand is no
// activation, or is read later or hardly waits, stays as it is. `room`: bytes that activations may take, where they
// take less without any overlap; 0: no more than that. `memory` outlives the schedule. Errors: those of ResolveBuffers.
absl::StatusOr<Schedule> WithOffloads(Schedule schedule, const std::vector<int>& fetches, int64_t room,
                                      TwoTierMemory& memory);

// Seconds that steps wait for copies, and seconds of the copies, if step i takes seconds[i] and a byte takes
// seconds_per_byte to copy.
struct CopySeconds {
  double waited = 0, copied = 0;
};
CopySeconds CopySecondsOf(const Schedule& schedule, const std::vector<double>& seconds, double seconds_per_byte);

}  // namespace rewright
