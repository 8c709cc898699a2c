// Reductions that share a kernel with what reads them: one block for a row, each reduction once.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_gpu_util.h"

namespace rewright {
namespace {

using testing::ElementsAre;

// The labels of the kernels that a graph becomes, which agree with the interpreter.
std::vector<std::string> Kernels(const std::string& text, cuda::CudaOptions options = {}, double tolerance = 1e-5) {
  SCOPED_TRACE(text);
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  options.min_vectorized = 8;
  auto profile = ProfileDb::Open("");
  EXPECT_TRUE(profile.ok());
  const auto device = cuda::MakeCudaDevice(MakeHostGpu(nullptr, {}), *std::move(profile), options);
  auto schedule = device->Compile(*graph);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  std::vector<std::string> labels;
  for (const Step& step : schedule->steps) labels.push_back(step.label);
  ExpectAgrees(*std::move(schedule), *graph, -1, 1, 1, tolerance);
  return labels;
}

std::string RmsNorm(const std::string& shape, int axis) {
  return absl::StrCat("input x: f32", shape, "\nconst %0: f32[] = [1e-6]\n%1 = mul(x, x)\n%2 = reduce_mean(%1, axes=[",
                      axis, "], keepdims=1)\n%3 = add(%2, %0)\n%4 = sqrt(%3)\n%5 = div(x, %4)\noutput y = %5\n");
}

// Two norms one behind the other, as in a normalized transformer.
constexpr char kTwoNorms[] = R"(
input x: f32[3,65]
input h: f32[3,65]
input a: f32[65]
%1 = mul(h, h)
%2 = reduce_sum(%1, axes=[1], keepdims=1)
%3 = sqrt(%2)
%4 = div(h, %3)
%5 = sub(%4, x)
%6 = mul(a, %5)
%7 = add(x, %6)
%8 = mul(%7, %7)
%9 = reduce_sum(%8, axes=[1], keepdims=1)
%10 = sqrt(%9)
%11 = div(%7, %10)
output y = %11
)";

TEST(CudaRows, NormsWrittenOutAreOneKernel) {
  for (const char* shape : {"[3,65]", "[2,3,48]", "[1,1000]", "[5,2,3,64]"}) {
    const int axis = std::string(shape) == "[2,3,48]" ? 2 : std::string(shape) == "[5,2,3,64]" ? 3 : 1;
    EXPECT_THAT(Kernels(RmsNorm(shape, axis)), ElementsAre("mul+reduce_mean+add+sqrt+div"));
  }
  EXPECT_THAT(Kernels(kTwoNorms), ElementsAre("mul+reduce_sum+sqrt+div+sub+mul+add+mul+reduce_sum+sqrt+div"));
  EXPECT_THAT(Kernels(kTwoNorms, {.precision = cuda::Precision::kBf16}, 4e-2), testing::SizeIs(1));
}

TEST(CudaRows, ASoftmaxWrittenOutIsOneKernelAndTakesWhatFollows) {
  EXPECT_THAT(Kernels(R"(
input x: f32[7,77]
input m: f32[7,77]
%1 = exp(x)
%2 = reduce_sum(%1, axes=[1], keepdims=1)
%3 = div(%1, %2)
%4 = mul(%3, m)
output y = %4
)"),
              ElementsAre("exp+reduce_sum+div+mul"));
  EXPECT_THAT(Kernels("input x: f32[7,77]\n%1 = softmax(x, axis=1)\n%2 = mul(%1, x)\noutput y = %2\n"),
              ElementsAre("softmax+mul"));
}

// Where a block could not share the reduction, or would do it again and again, it has a kernel of its own.
TEST(CudaRows, OtherReductionsStayAlone) {
  const auto alone = testing::Contains("mul+reduce_mean");
  EXPECT_THAT(Kernels(RmsNorm("[65,65]", 0)), alone);                              // columns
  EXPECT_THAT(Kernels(RmsNorm("[9,16]", 1)), alone);                               // short rows
  EXPECT_THAT(Kernels(RmsNorm("[1,17000]", 1)), alone);                            // more than a block should do
  EXPECT_THAT(Kernels(RmsNorm("[1,3,4,64]", 3), {.channels_last = true}), alone);  // rows that are not in one piece
  // The sum over rows of a norm along them needs every row's norm for every term.
  EXPECT_THAT(Kernels("input x: f32[64,65]\n%1 = softmax(x, axis=1)\n%2 = reduce_sum(%1, axes=[0])\noutput y = %2\n"),
              ElementsAre("softmax", "reduce_sum"));
  // A row's sum that only some elements need.
  EXPECT_THAT(Kernels(R"(
input x: f32[7,77]
%1 = reduce_sum(x, axes=[1], keepdims=1)
%2 = add(x, %1)
%3 = pad(%2, before=[0,1], after=[0,1])
output y = %3
)"),
              ElementsAre("reduce_sum", "add+pad"));
}

}  // namespace
}  // namespace rewright
