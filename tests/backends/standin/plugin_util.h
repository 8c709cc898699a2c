// Fixture of the tests that run the plugin on a GPU that is played (standin_util.h).
#pragma once

#include <cstdlib>
#include <memory>

#include "backends/cuda/cuda_device.h"
#include "core/base/status_macros.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/standin/standin_util.h"

extern "C" rewright::cuda::Gpu* rewright_open_gpu(int ordinal, rewright::cuda::Fault* fault);

namespace rewright {

class Plugin : public testing::Test {
 protected:
  // No choice is remembered.
  void SetUp() override { setenv("REWRIGHT_CACHE", "", 1); }

  static void Begin(const standin::Settings& settings = {}) { standin::Reset(settings); }
  static void ExpectClean() {
    EXPECT_THAT(standin::observed().misuse, testing::IsEmpty());
    for (const auto& [kind, count] : standin::observed().live) EXPECT_EQ(count, 0) << kind << " are left";
  }

  static absl::StatusOr<std::unique_ptr<Device>> Open(cuda::Precision precision = cuda::Precision::kFp32) {
    cuda::Fault fault;
    std::unique_ptr<cuda::Gpu> gpu(rewright_open_gpu(0, &fault));
    if (gpu == nullptr) return absl::UnavailableError(fault);
    cuda::CudaOptions options;
    options.precision = precision;
    options.channels_last = precision != cuda::Precision::kFp32;
    options.min_vectorized = 8;
    ASSIGN_OR_RETURN(std::unique_ptr<ProfileDb> profile, ProfileDb::Open(""));
    return cuda::MakeCudaDevice(std::move(gpu), std::move(profile), options);
  }

  // Compiled, run twice and replayed; costs of its groups are measured.
  static void ExpectRuns(const Graph& graph, cuda::Precision precision, uint64_t seed) {
    Begin({.seed = seed});
    {
      auto device = Open(precision);
      ASSERT_TRUE(device.ok()) << device.status();
      auto executable = MakeGraphRunner(**device)->Prepare(graph);
      ASSERT_TRUE(executable.ok()) << executable.status();
      ExpectAgrees(**executable, graph, -1, 1, seed, ToleranceOf(precision));
    }
    ExpectClean();
  }
  static double ToleranceOf(cuda::Precision precision) {
    switch (precision) {
      case cuda::Precision::kFp16: return 8e-3;
      case cuda::Precision::kBf16: return 6e-2;
      default: return 1e-5;
    }
  }
};

// Convolutions with all epilogues, in place into a concatenation, depthwise; pooling; branches.
inline constexpr char kImages[] = R"(
input x: f32[1,8,3,3]
state w: f32[8,8,3,3]
state b: f32[8,1,1]
state d: f32[8,1,3,3]
state v: f32[4,16,1,1]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = add(%1, b)
%3 = add(%2, x)
%4 = relu(%3)
%5 = conv2d(%4, d, pads=[1,1,1,1], groups=8)
%6 = relu(%5)
%7 = conv2d(%4, w, pads=[1,1,1,1])
%8 = clip(%7, min=0, max=0.5)
%9 = concat(%6, %8, axis=1)
%10 = conv2d(%9, v)
%11 = max_pool2d(%10, kernel=[3,3], strides=[2,2], pads=[1,1,1,1])
%12 = conv2d(%4, w, strides=[2,2], pads=[1,1,1,1])
output y = %11
output z = %12
)";

inline constexpr char kRows[] = R"(
input x: f32[1,3,16]
state q: f32[16,16]
state k: f32[16,16]
state u: f32[16,16]
state ub: f32[16]
state w: f32[16,16]
state s: f32[16]
state t: f32[16]
const %0: f32[] = [4]
%1 = matmul(x, q)
%2 = matmul(x, k)
%3 = transpose(%2, perm=[0,2,1])
%4 = matmul(%1, %3)
%5 = div(%4, %0)
%6 = softmax(%5, axis=2)
%7 = matmul(%6, x)
%8 = add(%7, x)
%9 = layer_norm(%8, s, t, axis=2, epsilon=0.001)
%10 = matmul(%9, u)
%11 = add(%10, ub)
%12 = gelu(%11)
%13 = matmul(%12, w)
%14 = gelu_tanh(%13)
output y = %14
)";

}  // namespace rewright
