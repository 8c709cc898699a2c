// Every kernel that the CUDA device generates compiles for a GPU; none is needed for that.
#include <map>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "backends/cuda/codegen/kernel_prelude.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/plugin/context.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/cuda/collector_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

constexpr int kArchitectures[] = {80, 90};

class Nvrtc : public testing::Test {
 protected:
  Nvrtc() {
    cuda::CudaOptions options;
    options.min_vectorized = 8;
    device_ = cuda::MakeCudaDevice(std::make_unique<Collector>(&sources_), *ProfileDb::Open(""), options);
  }
  void Collect(const Graph& graph) {
    const auto schedule = device_->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  }
  // Many kernels are one program: starting the compiler takes longer than one of them.
  void ExpectAllCompile() {
    constexpr size_t kTogether = 60;
    ASSERT_FALSE(sources_.empty());
    std::string program;
    size_t count = 0;
    for (auto it = sources_.begin(); it != sources_.end();) {
      program += it->second;
      ++it;
      if (++count % kTogether != 0 && it != sources_.end()) continue;
      for (int architecture : kArchitectures) {
        std::string code, report;
        const cuda::Fault fault = cuda::CompileSource(cuda::KernelPrelude() + program, architecture, &code, &report);
        ASSERT_EQ(fault, "") << program;
        EXPECT_GT(code.size(), 0u);
        // Everything stays in registers, but what CUDA's sines need for arguments that are large.
        int kernels = 0;
        std::string kernel;
        for (absl::string_view line : absl::StrSplit(report, '\n')) {
          constexpr absl::string_view kProperties = "Function properties for ";
          if (const size_t at = line.find(kProperties); at != absl::string_view::npos) {
            kernel = std::string(line.substr(at + kProperties.size()));
          }
          if (!absl::StrContains(line, "spill stores")) continue;
          ++kernels;
          EXPECT_THAT(std::string(line), testing::HasSubstr(" 0 bytes spill stores, 0 bytes spill loads")) << kernel;
          if (ReducesLargeArguments(kernel)) continue;
          EXPECT_THAT(std::string(line), testing::HasSubstr(" 0 bytes stack frame,")) << kernel;
        }
        EXPECT_GT(kernels, 0) << report;
      }
      program.clear();
    }
  }

  bool ReducesLargeArguments(const std::string& kernel) const {
    const auto source = sources_.find(kernel);
    static const std::regex sines("op_(sin|cos|tan)\\(");
    return source != sources_.end() && std::regex_search(source->second, sines);
  }

  std::map<std::string, std::string> sources_;
  std::unique_ptr<Device> device_;
};

TEST_F(Nvrtc, KernelsOfEveryOperatorCompile) {
  Rng rng(11);
  for (const OpDef* op : OpsOfGpus()) {
    for (int i = 0; i < Cases(30); ++i) {
      OpSample sample;
      const Graph graph = RandomApplication(*op, rng, &sample);
      if (IsOfGpus(graph)) Collect(graph);
    }
  }
  ExpectAllCompile();
}

TEST_F(Nvrtc, KernelsOfRandomGraphsCompile) {
  for (int seed = 0; seed < Cases(200); ++seed) {
    Collect(RandomImageGraph(static_cast<uint64_t>(seed), 4 + seed % 17));
    Collect(RandomMatrixGraph(static_cast<uint64_t>(seed), 4 + seed % 17));
  }
  ExpectAllCompile();
}

// As many tiles as a block has memory for, sums of neighbours that threads share, padded images.
TEST_F(Nvrtc, KernelsThatShareMemoryCompile) {
  std::string tiles, sum = "%0";
  for (int i = 0; i < 8; ++i) absl::StrAppend(&tiles, "input x", i, ": f64[128,160]\n");
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&tiles, "%", 2 * i, " = transpose(x", i, ", perm=[1,0])\n");
    if (i == 0) continue;
    absl::StrAppend(&tiles, "%", 2 * i + 1, " = add(", sum, ", %", 2 * i, ")\n");
    sum = absl::StrCat("%", 2 * i + 1);
  }
  Collect(GraphWithWeights(tiles + "output y = " + sum + "\n", -1, 1, 1));
  for (cuda::Precision precision : {cuda::Precision::kTf32, cuda::Precision::kBf16}) {
    device_ = cuda::MakeCudaDevice(std::make_unique<Collector>(&sources_), *ProfileDb::Open(""),
                                   {.precision = precision, .channels_last = true, .min_vectorized = 8});
    Collect(GraphWithWeights(R"(
input x: f32[2,3,14,14]
state w: f32[67,3,1,1]
%1 = conv2d(x, w)
%2 = reduce_mean(%1, axes=[2,3])
output y = %2
)",
                             -1, 1, 1));
  }
  const auto uses = [&](const char* text) {
    return std::any_of(sources_.begin(), sources_.end(),
                       [&](const auto& source) { return absl::StrContains(source.second, text); });
  };
  EXPECT_TRUE(uses("__shared__ double tile4[32][33]"));
  EXPECT_TRUE(uses("column_reduce<16"));
  ExpectAllCompile();
}

TEST(NvrtcErrors, OtherArchitecturesAreNamed) {
  for (int architecture : kArchitectures) EXPECT_EQ(cuda::CheckArchitecture("this one", architecture), "");
  EXPECT_THAT(cuda::CheckArchitecture("Tesla K80", 37),
              testing::StartsWith("Tesla K80 has compute capability 3.7; this NVRTC compiles for "));
}

TEST(NvrtcErrors, NameWhatIsWrong) {
  std::string code;
  const cuda::Fault fault =
      cuda::CompileSource("extern \"C\" __global__ void k(float* out) { out[0] = missing; }", kArchitectures[0], &code);
  EXPECT_NE(fault.find("missing"), std::string::npos) << fault;
}

}  // namespace
}  // namespace rewright
