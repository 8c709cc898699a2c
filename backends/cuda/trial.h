// Several ways to do the same, tried on memory of their own while a graph is lowered.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cuda/gpu_memory.h"
#include "runtime/instance.h"

namespace rewright::cuda {

using TrialWay = std::function<absl::Status(Instance& trial)>;

// The number of the fastest way. Each runs on memory for these buffers of the schedule, inputs, outputs and constants
// included, no two of which share any; up to 16 sets of it take turns. What nobody has computed yet is filled with
// numbers of ordinary size. `key` tells the ways apart from all others (Gpu::Fastest). Where the choice is remembered,
// `prepare` (which compiles what is to be tried) is not called and no memory is taken. What cannot be tried for want of
// memory is done the first way.
absl::StatusOr<int> FastestOnTrial(const Schedule& schedule, const std::vector<int>& buffers, GpuMemory& memory,
                                   const std::string& key, const std::function<absl::Status()>& prepare,
                                   const std::vector<TrialWay>& ways);

}  // namespace rewright::cuda
