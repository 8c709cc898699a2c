// Steps that run at the same time.
//
// The steps of a schedule are a list, but a step often needs nothing of the one before it: branches of a module, the
// products of queries, keys and values, a shortcut beside a block. A GPU that one of them does not fill does them
// faster side by side. Consecutive steps become a section whose steps go on several queues, each behind those that it
// has to wait for. A section ends before a step that waits for all of it. To the memory plan a section is one span of
// time: all its buffers are alive during it, which makes the plan right for any order within.
//
// Timing decides whether a section runs in order or side by side (Gpu::Fastest).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/memory/gpu_memory.h"
#include "core/device/device.h"
#include "runtime/schedule.h"

namespace rewright::cuda {

// The sections that can run side by side, that is on more than one queue, in order.
std::vector<Section> ParallelSections(const std::vector<std::vector<int>>& dependencies);

// Puts the steps of sections that are faster side by side on their queues. Kernels are ready to run. `key_of` tells a
// step's work from all other work.
absl::Status RunSideBySide(GpuMemory& memory, const std::function<std::string(const Step&)>& key_of,
                           Schedule* schedule);

}  // namespace rewright::cuda
