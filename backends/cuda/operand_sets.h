// Sets of operands for work that is timed. They take turns and exceed the cache together, since in a model what is read
// comes from memory.
#pragma once

#include <cstdint>
#include <memory>
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

}  // namespace rewright::cuda
