// A GPU made of the processor: generated kernels are compiled by the C++ compiler and run block by block, products and
// convolutions are computed by their definition. What the CUDA device decides and generates is thereby checked on every
// machine.
#pragma once

#include <memory>

#include "backends/cuda/gpu.h"

namespace rewright {

struct HostGpuCounts {
  int kernels = 0;  // compiled
  int launches = 0;
  int calls = 0;  // of libraries
};

// Kernels are compiled together when the first of them is launched. `counts` may be null; it outlives the GPU.
std::unique_ptr<cuda::Gpu> MakeHostGpu(HostGpuCounts* counts = nullptr);

}  // namespace rewright
