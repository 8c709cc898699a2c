// Facts that follow from the uses of buffers in a schedule: the place of a buffer, and the steps that each step waits
// for.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/queue_step.h"
#include "core/device/device.h"

namespace rewright {

// A fault of the device that made a schedule.
absl::Status ScheduleFault(const std::string& message);

// Where a buffer is: `offset` bytes from the start of buffer `root`, which is no view.
struct ResolvedBuffer {
  int root = 0;
  int64_t offset = 0;
};

// REQUIRES: views lead to a buffer that is none, as ResolveBuffers checks.
ResolvedBuffer ResolveBuffer(const std::vector<Buffer>& buffers, int id);

// All of them. Errors (ScheduleFault): a view that reaches outside what it views, views in a cycle.
absl::StatusOr<std::vector<ResolvedBuffer>> ResolveBuffers(const std::vector<Buffer>& buffers);

// By step: the earlier steps that it has to wait for, ascending. A step waits for those that write what it reads or
// writes, and for those that read what it writes.
std::vector<std::vector<int>> DependenciesOf(const Schedule& schedule);

// Consecutive steps [begin, end) on several queues.
struct Section {
  int begin = 0, end = 0;
  std::vector<QueueStep> steps;  // numbered from `begin`
};

// The order of steps [begin, end) on these queues, one for each: on every other queue a step waits for the last step
// that it needs.
Section MakeSection(const std::vector<std::vector<int>>& dependencies, int begin, const std::vector<int>& queues);

// The parts of the schedule, between steps that join queues, with more than one queue.
std::vector<Section> SectionsOf(const Schedule& schedule);

}  // namespace rewright
