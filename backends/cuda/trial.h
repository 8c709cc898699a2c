// Several ways to do the same, tried on memory of their own while a graph is lowered. Sets of operands take turns and
// exceed the cache together, since in a model what is read comes from memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cuda/gpu_memory.h"
#include "runtime/instance.h"

namespace rewright::cuda {

// How many sets of `bytes` exceed the cache twice; at most `most`, and at most 2 GiB of them, but one.
int64_t NumSets(const GpuDescription& gpu, int64_t bytes, int64_t most);

// So many instances of a schedule, in one piece of memory. `contents` are those of the plan's memory in each of them,
// but for copies of constants, which are the constants'.
absl::StatusOr<std::vector<std::unique_ptr<Instance>>> MakeSets(const Schedule& schedule, const MemoryPlan& plan,
                                                                GpuMemory& memory, int64_t sets,
                                                                std::vector<char> contents);

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
