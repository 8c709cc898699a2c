// Kernels of the device's own run without asking for memory. (oneDNN's take a few hundred bytes for their arguments.)
#include <atomic>
#include <cstdlib>
#include <new>

#include "backends/device_factory.h"
#include "tests/backends/cpu_runner_util.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace rewright {
namespace {

TEST(CpuKernels, RunWithoutAllocation) {
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
  auto device = MakeDevice("cpu", {2, ""});
  ASSERT_TRUE(device.ok());
  const auto schedule = (*device)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  std::vector<std::vector<float>> memory;
  std::vector<char*> base(schedule->buffers.size(), nullptr);
  for (size_t i = 0; i < base.size(); ++i) {
    const Buffer& buffer = schedule->buffers[i];
    memory.emplace_back(buffer.bytes / sizeof(float) + 1, 0.5f);
    base[i] = buffer.data != nullptr ? static_cast<char*>(buffer.data.get())
                                     : reinterpret_cast<char*>(memory.back().data());
  }
  std::vector<std::vector<void*>> addresses;
  for (const Step& step : schedule->steps) {
    addresses.emplace_back();
    for (int id : step.buffers) {
      size_t at = static_cast<size_t>(id), offset = 0;
      for (; schedule->buffers[at].alias_of >= 0; at = static_cast<size_t>(schedule->buffers[at].alias_of)) {
        offset += schedule->buffers[at].offset;
      }
      addresses.back().push_back(base[at] + offset);
    }
  }
  for (int run = 0; run < 3; ++run) {
    const int64_t before = allocations.load();
    for (size_t s = 0; s < schedule->steps.size(); ++s) schedule->steps[s].kernel->Run(addresses[s].data());
    if (run > 0) {
      EXPECT_EQ(allocations.load(), before);
    }
  }
}

}  // namespace
}  // namespace rewright
