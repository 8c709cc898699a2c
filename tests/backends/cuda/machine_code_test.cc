// Generated kernels as machine code for a GPU that is not there: 16 bytes move at a time.
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/codegen/kernel_prelude.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/plugin/context.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/cuda/collector_util.h"
#include "tests/backends/cuda/machine_code_util.h"

namespace rewright {
namespace {

using testing::ElementsAre;

std::vector<int> Widths(const std::map<int, int>& accesses) {
  std::vector<int> widths;
  for (const auto& [bytes, count] : accesses) widths.push_back(bytes);
  return widths;
}

// The accesses of the kernel that gives %1 from x: f32[61, rows, columns], both stored as between kernels.
GlobalAccesses AccessesOfKernel(const std::string& body, int64_t rows, int64_t columns, cuda::Precision precision) {
  const Graph graph = GraphWithWeights(absl::StrCat("input x: f32[61,", rows, ",", columns, "]\nstate b: f32[", columns,
                                                    "]\n", body, "\noutput y = %1\n"),
                                       -1, 1, 1);
  std::map<std::string, std::string> sources;
  Collector gpu(&sources);
  cuda::LoweringOptions options;
  options.precision = precision;
  options.inside = true;
  const auto schedule = cuda::Lowering(gpu, graph, options).Run();
  EXPECT_TRUE(schedule.ok()) << schedule.status().ToString();
  EXPECT_EQ(sources.size(), 1u) << body;
  const auto& [name, source] = *sources.begin();
  std::string code;
  EXPECT_EQ(cuda::CompileSource(cuda::KernelPrelude() + source, 90, &code), "") << source;
  return AccessesOf(code, name);
}

class MachineCode : public testing::TestWithParam<cuda::Precision> {
 protected:
  int ElementBytes() const { return cuda::IsHalf(GetParam()) ? 2 : 4; }
};

TEST(MachineCodeUtil, TellsWidthsApart) {
  std::string code;
  ASSERT_EQ(cuda::CompileSource(R"(
extern "C" __global__ void copy(const unsigned char* a, const short* b, const float* c, const double* d,
                                const float4* e, float4* out) {
  out[threadIdx.x] = e[threadIdx.x];
  ((double*)out)[1000 + threadIdx.x] = d[threadIdx.x];
  ((float*)out)[9000 + threadIdx.x] = c[threadIdx.x] + b[threadIdx.x] + a[threadIdx.x];
})",
                                90, &code),
            "");
  const GlobalAccesses accesses = AccessesOf(code, "copy");
  EXPECT_THAT(Widths(accesses.loads), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(Widths(accesses.stores), ElementsAre(4, 8, 16));
}

// In the flat order of memory the rows' length does not matter; what is left over at the end goes one by one.
TEST_P(MachineCode, ElementwiseKernelsMoveSixteenBytes) {
  for (const char* body : {"%0 = mul(x, x)\n%1 = exp(%0)", "%0 = sigmoid(x)\n%1 = mul(%0, x)"}) {
    const GlobalAccesses even = AccessesOfKernel(body, 128, 768, GetParam());
    EXPECT_THAT(Widths(even.loads), ElementsAre(16)) << body;
    EXPECT_THAT(Widths(even.stores), ElementsAre(16)) << body;
    const GlobalAccesses odd = AccessesOfKernel(body, 127, 769, GetParam());
    EXPECT_THAT(Widths(odd.loads), ElementsAre(ElementBytes(), 16)) << body;
    EXPECT_THAT(Widths(odd.stores), ElementsAre(ElementBytes(), 16)) << body;
  }
}

// Rows move 16 bytes where each begins at a multiple of them.
TEST_P(MachineCode, RowsMoveSixteenBytes) {
  for (const char* body : {"%1 = softmax(x, axis=2)", "%1 = layer_norm(x, b, b, axis=2, epsilon=0.001)"}) {
    const GlobalAccesses even = AccessesOfKernel(body, 127, 768, GetParam());
    EXPECT_THAT(Widths(even.loads), ElementsAre(16)) << body;
    EXPECT_THAT(Widths(even.stores), ElementsAre(16)) << body;
    const GlobalAccesses odd = AccessesOfKernel(body, 127, 769, GetParam());
    EXPECT_THAT(Widths(odd.stores), ElementsAre(ElementBytes())) << body;
  }
  const GlobalAccesses sums = AccessesOfKernel("%1 = reduce_mean(x, axes=[2])", 127, 768, GetParam());
  EXPECT_THAT(Widths(sums.loads), ElementsAre(16));
  EXPECT_THAT(Widths(sums.stores), ElementsAre(ElementBytes()));
}

INSTANTIATE_TEST_SUITE_P(Precisions, MachineCode,
                         testing::Values(cuda::Precision::kFp32, cuda::Precision::kFp16, cuda::Precision::kBf16));

}  // namespace
}  // namespace rewright
