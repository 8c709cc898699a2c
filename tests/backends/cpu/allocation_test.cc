// Kernels of the device's own run without asking for memory. (oneDNN's take a few hundred bytes for their arguments.)
#include <atomic>
#include <cstdlib>
#include <new>

#include "backends/device_factory.h"
#include "core/ir/random_tensors.h"
#include "runtime/executor.h"
#include "tests/backends/cpu/runner_util.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// The sanitizers have operators of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS
void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace rewright {
namespace {

TEST(CpuKernels, RunWithoutAllocation) {
#ifndef COUNTS_ALLOCATIONS
  GTEST_SKIP() << "allocations are not counted under a sanitizer";
#endif
  const Graph graph = GraphWithWeights(R"(
input x: f32[4,64,32]
state w: f32[32,32]
state b: f32[32]
%1 = matmul(x, w)
%2 = add(%1, b)
%3 = gelu(%2)
%4 = transpose(%3, perm=[0,2,1])
%5 = matmul(%3, %4)
%6 = softmax(%5)
%7 = layer_norm(%3, b, b)
%8 = exp(%7)
%9 = reduce_mean(%8, axes=[1])
%10 = concat(%6, %5, axis=2)
output y = %9
output z = %10
)",
                                       -1, 1, 1);
  auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok());
  const auto executable = MakeGraphRunner(**device)->Prepare(graph);
  ASSERT_TRUE(executable.ok()) << executable.status().ToString();
  const std::vector<Tensor> inputs = *RandomInputs(graph, 1);
  std::vector<Tensor> outputs;
  for (int run = 0; run < 3; ++run) {
    const int64_t before = allocations.load();
    const absl::Status status = (*executable)->Run(inputs, &outputs);
    const int64_t after = allocations.load();
    ASSERT_TRUE(status.ok()) << status;
    if (run > 0) {
      EXPECT_EQ(after, before);
    }
  }
}

}  // namespace
}  // namespace rewright
