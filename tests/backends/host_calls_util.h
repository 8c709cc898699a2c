// The calls of a GPU's libraries, computed by their definition on the processor.
#pragma once

#include <memory>

#include "backends/cuda/gpu.h"
#include "tests/backends/host_gpu_util.h"

namespace rewright {

// Checks the alignment of its buffers, and spoils its workspace. `counts` outlives the call.
std::unique_ptr<cuda::LibraryCall> MakeHostCall(const cuda::Problem& problem, HostGpuCounts& counts);

}  // namespace rewright
