// A GPU made of the processor: generated kernels are compiled by the C++ compiler and run block by block, calls of
// libraries are computed by their definition. So the decisions and kernels of the CUDA device are checked on every
// machine.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/gpu.h"

namespace rewright {

struct HostGpuCounts {
  int kernels = 0;  // compiled
  int launches = 0;
  int calls = 0;                  // of products and convolutions
  int attentions = 0;             // fused calls
  int pools = 0, norms = 0;       // calls where generated kernels do the same
  int sections = 0;               // of steps side by side
  int64_t peak_bytes = 0;         // allocated at a time
  std::set<const void*> factors;  // addresses of the right factors of products
};

// The limits of this GPU.
struct HostGpuOptions {
  bool no_products = false;    // and no convolutions, pooling, normalization: Plan gives a fault
  bool no_attention = false;   // Plan gives a fault
  bool first_ways = false;     // of several ways all are tried, and the first one is fastest
  bool no_epilogues = false;   // of a convolution, but a bias and a relu behind it
  bool no_gaps = false;        // convolutions write dense results alone
  int64_t memory = INT64_MAX;  // bytes that can be allocated in all
  int fault_at = -1;           // the launch that is refused, counted from 0
};

// Kernels are compiled together when the first of them is launched. `counts` may be null; it outlives the GPU.
std::unique_ptr<cuda::Gpu> MakeHostGpu(HostGpuCounts* counts = nullptr, const HostGpuOptions& options = {});
// The CUDA device on it, with kernels of several elements a thread for small tensors, too.
std::unique_ptr<Device> HostDevice(cuda::CudaOptions options = {}, HostGpuCounts* counts = nullptr,
                                   const HostGpuOptions& lacks = {});
// The labels of its steps, which tell the groups that a graph became.
std::vector<std::string> LabelsOf(const Schedule& schedule);

// A graph to be compiled and compared with the interpreter on random inputs in [low, high].
struct GraphCase {
  std::string name;
  Graph graph;
  Schedule schedule;
  double low = -2, high = 2;
};
// Kernels of all cases are compiled together at the first run.
void ExpectAllAgree(Device& device, std::vector<GraphCase> cases, double tolerance = 1e-5);
// `count` graphs of images and as many of matrices.
std::vector<GraphCase> RandomGraphs(int count);

}  // namespace rewright
