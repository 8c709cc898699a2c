// Calls of libraries on a processor that stands for the GPU: what they take along, where they write, and when a kernel
// is faster.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/cuda_device.h"
#include "core/ir/text.h"
#include "core/ops/common.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

// A convolution with all of an epilogue.
constexpr char kConvolution[] = R"(
input x: f32[1,8,6,6]
state w: f32[8,8,3,3]
state b: f32[8,1,1]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = add(%1, b)
%3 = add(%2, x)
%4 = relu(%3)
)";

TEST(CudaCalls, FusesEpiloguesAndMoves) {
  const Graph graph = GraphWithWeights(absl::StrCat(kConvolution, R"(
%5 = transpose(%4, perm=[0,2,3,1])
%6 = sigmoid(%5)
%7 = concat(%6, %6, axis=3)
%8 = softmax(%7, axis=3)
output y = %8
)"),
                                       -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  const auto device = HostDevice();
  auto schedule = device->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  EXPECT_THAT(LabelsOf(*schedule), testing::ElementsAre("conv2d+add+add+relu", testing::HasSubstr("softmax")));
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 1);
}

TEST(CudaCalls, ConcatenationsAreWrittenInPlace) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[2,16,6,6]
state u: f32[8,16,1,1]
state b: f32[8,1,1]
state v: f32[16,16,3,3]
state w: f32[16,40,1,1]
%1 = conv2d(x, u)
%2 = add(%1, b)
%3 = relu(%2)
%4 = conv2d(x, v, pads=[1,1,1,1])
%5 = concat(%3, %4, x, axis=1)
%6 = conv2d(%5, w)
%7 = max_pool2d(x, kernel=[3,3], pads=[1,1,1,1])
%8 = concat(%6, %7, axis=1)
output y = %8
)",
                                       -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kTf32, cuda::Precision::kFp16}) {
    cuda::CudaOptions options;
    options.precision = precision;
    options.channels_last = precision != cuda::Precision::kFp32;
    const auto device = HostDevice(options);
    auto schedule = device->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
    // Two of the five parts are copied: an input, and the result of a generated kernel.
    EXPECT_THAT(LabelsOf(*schedule), testing::Contains("concat").Times(2));
    ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, precision == cuda::Precision::kFp16 ? 6e-3 : 1e-5);
  }
  // No engine for results with gaps between rows: every part is copied.
  const auto dense = HostDevice({}, nullptr, {.no_gaps = true});
  auto copied = dense->Compile(graph);
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  EXPECT_THAT(LabelsOf(*copied), testing::Contains("concat").Times(5));
  ExpectAgrees(*std::move(copied), graph, -1, 1, 1);
  // Two products side by side, along rows and along columns.
  for (const char* axis : {"1", "2"}) {
    const Graph products = GraphWithWeights(absl::StrCat(R"(
input x: f32[3,8,8]
state u: f32[8,8]
input z: f32[3,8,8]
%1 = matmul(x, u)
%2 = matmul(x, z)
%3 = relu(%2)
%4 = concat(%1, %3, axis=)",
                                                         axis, ")\noutput y = %4\n"),
                                            -1, 1, 2);
    const auto device = HostDevice();
    auto schedule = device->Compile(products);
    ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
    EXPECT_THAT(LabelsOf(*schedule), testing::UnorderedElementsAre("matmul", "matmul+relu"));
    ExpectAgrees(*std::move(schedule), products, -1, 1, 3);
    for (const Group& group : device->Partition(products)) {
      const bool concat = products.node(group.nodes[0]).op->name == "concat";
      EXPECT_EQ(*device->Cost(products, group) == 0, concat);
    }
  }
}

// The nodes behind a convolution are a kernel of their own where the library has no engine for both.
TEST(CudaCalls, ConvolutionsStayCallsWithoutTheirEpilogue) {
  const Graph graph = GraphWithWeights(absl::StrCat(kConvolution, R"(
%5 = conv2d(%4, w, pads=[1,1,1,1])
%6 = relu(%5)
%7 = conv2d(%6, w, pads=[1,1,1,1])
%8 = add(%7, b)
%9 = relu(%8)
output y = %9
)"),
                                       -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  const auto device = HostDevice({}, nullptr, {.no_epilogues = true});
  auto schedule = device->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  EXPECT_THAT(LabelsOf(*schedule), testing::ElementsAre("conv2d+add", "add+relu", "conv2d+relu", "conv2d+add+relu"));
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 1);
  ExpectAllAgree(*device, RandomGraphs(Cases(20)));
}

// A depthwise convolution and its epilogue are one call or two steps, whichever is faster.
TEST(CudaCalls, DepthwiseConvolutionsAreTriedBothWays) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[2,6,5,5]
state w: f32[6,1,3,3]
state b: f32[6,1,1]
state v: f32[4,6,1,1]
%1 = conv2d(x, w, pads=[1,1,1,1], groups=6)
%2 = add(%1, b)
%3 = relu(%2)
%4 = conv2d(%3, v)
output y = %4
)",
                                       -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  for (bool first : {false, true}) {
    for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kBf16}) {
      cuda::CudaOptions options;
      options.precision = precision;
      options.channels_last = precision != cuda::Precision::kFp32;
      const auto device = HostDevice(options, nullptr, {.first_ways = first});
      auto schedule = device->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      const std::vector<std::string> labels = LabelsOf(*schedule);
      const auto steps = std::count_if(labels.begin(), labels.end(), [](const auto& l) { return l != "reorder"; });
      EXPECT_EQ(steps, first ? 2 : 3) << absl::StrJoin(labels, ", ");
      EXPECT_THAT(labels, testing::Contains(first ? "conv2d+add+relu" : "add+relu"));
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, precision == cuda::Precision::kFp32 ? 1e-5 : 3e-2);
    }
  }
}

// Relu with a limit ends a convolution or is a kernel of its own, whichever is faster; images of 3 channels are padded
// or not in either case.
TEST(CudaCalls, RelusWithALimitAreTriedBothWays) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[2,3,5,5]
state w: f32[8,3,3,3]
state b: f32[8,1,1]
state v: f32[8,8,1,1]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = add(%1, b)
%3 = clip(%2, min=0, max=0.5)
%4 = conv2d(%3, v)
%5 = clip(%4, min=0, max=0.25)
%6 = conv2d(%5, v)
%7 = clip(%6, min=-1, max=0.25)
output y = %7
)",
                                       -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  for (bool first : {false, true}) {
    for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kBf16}) {
      cuda::CudaOptions options;
      options.precision = precision;
      options.channels_last = precision != cuda::Precision::kFp32;
      const auto device = HostDevice(options, nullptr, {.first_ways = first});
      auto schedule = device->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      const std::vector<std::string> labels = LabelsOf(*schedule);
      EXPECT_THAT(labels, testing::Contains(first ? "conv2d+add+clip" : "conv2d+add"));
      EXPECT_THAT(labels, testing::Contains(first ? "conv2d+clip" : "conv2d").Times(testing::Ge(1)));
      EXPECT_EQ(std::count(labels.begin(), labels.end(), "clip"), first ? 1 : 3);  // the last one begins at -1
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, precision == cuda::Precision::kFp32 ? 1e-5 : 3e-2);
      for (const Group& group : device->Partition(graph)) EXPECT_TRUE(device->Cost(graph, group).ok());
    }
  }
}

// GELU ends a product; the error function's is compared with a kernel of its own.
TEST(CudaCalls, ProductsEndInGelu) {
  for (const char* gelu : {"gelu_tanh", "gelu"}) {
    const Graph graph = GraphWithWeights(absl::StrCat(R"(
input x: f32[2,3,8]
state w: f32[8,16]
state b: f32[16]
%1 = matmul(x, w)
%2 = add(%1, b)
%3 = )",
                                                      gelu, "(%2)\noutput y = %3\n"),
                                         -1, 1, 1);
    ASSERT_FALSE(graph.outputs().empty());
    for (bool first : {false, true}) {
      const auto device = HostDevice({}, nullptr, {.first_ways = first});
      auto schedule = device->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      const bool whole = first || std::string(gelu) == "gelu_tanh";
      EXPECT_THAT(LabelsOf(*schedule), testing::Contains(whole ? absl::StrCat("matmul+add+", gelu) : gelu));
      EXPECT_EQ(schedule->steps.size(), whole ? 1u : 2u);
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 1);
    }
  }
  // Inputs of both ways are converted before they are timed: one kernel is launched for GELU, one for the weight.
  HostGpuCounts counts;
  const auto device = HostDevice({.precision = cuda::Precision::kBf16}, &counts, {.first_ways = true});
  const Graph graph = GraphWithWeights(
      "input x: f32[3,8]\nstate w: f32[8,16]\n%1 = matmul(x, w)\n%2 = gelu(%1)\noutput y = %2\n", -1, 1, 1);
  ASSERT_TRUE(device->Compile(graph).ok());
  EXPECT_EQ(counts.launches, 2);
}

// A product adds the summand behind it, though that has another shape.
TEST(CudaCalls, SumsReachThroughReshapes) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[6,8]
input z: f32[2,3,16]
state w: f32[8,16]
state b: f32[16]
%1 = matmul(x, w)
%2 = add(%1, b)
%3 = reshape(%2, shape=[2,3,16])
%4 = add(z, %3)
%5 = exp(%4)
output y = %5
)",
                                       -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kFp16}) {
    cuda::CudaOptions options;
    options.precision = precision;
    const auto device = HostDevice(options);
    auto schedule = device->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_THAT(LabelsOf(*schedule), testing::Contains("matmul+add+reshape+add"));
    ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, precision == cuda::Precision::kFp32 ? 1e-5 : 8e-3);
    for (const Group& group : device->Partition(graph)) EXPECT_TRUE(device->Cost(graph, group).ok());
  }
  const Graph activated = GraphWithWeights(R"(
input x: f32[6,8]
state w: f32[8,16]
%1 = matmul(x, w)
%2 = reshape(%1, shape=[2,3,16])
%3 = gelu_tanh(%2)
output y = %3
)",
                                           -1, 1, 1);
  ASSERT_FALSE(activated.outputs().empty());
  const auto host = HostDevice();
  auto whole = host->Compile(activated);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(LabelsOf(*whole), testing::ElementsAre("matmul+reshape+gelu_tanh"));
  ExpectAgrees(*std::move(whole), activated, -1, 1, 1);
  // Another last axis is another matrix.
  const Graph other = GraphWithWeights(R"(
input x: f32[6,8]
input z: f32[2,48]
state w: f32[8,16]
%1 = matmul(x, w)
%2 = reshape(%1, shape=[2,48])
%3 = add(z, %2)
output y = %3
)",
                                       -1, 1, 1);
  ASSERT_FALSE(other.outputs().empty());
  const auto device = HostDevice();
  auto apart = device->Compile(other);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(LabelsOf(*apart), testing::Contains("matmul"));
  ExpectAgrees(*std::move(apart), other, -1, 1, 1);
}

// Pooling and normalization of random sizes between products, so that what they read and write lies as it does within
// graphs. `library`: whether a library has them, too.
Graph RandomPooling(Rng& rng, bool* library) {
  const int64_t channels = RandomInt(rng, 1, 5), height = RandomInt(rng, 3, 11), width = RandomInt(rng, 3, 11);
  const std::vector<int64_t> kernel = RandomInts(rng, 2, 1, 3), strides = RandomInts(rng, 2, 1, 3);
  std::vector<int64_t> pads;
  for (size_t k = 0; k < 4; ++k) pads.push_back(RandomInt(rng, 0, kernel[k % 2] - 1));
  const bool max = RandomInt(rng, 0, 1) == 1, ceil_mode = RandomInt(rng, 0, 1) == 1;
  const int64_t flag = RandomInt(rng, 0, 1);
  const auto list = [](const std::vector<int64_t>& numbers) {
    return absl::StrCat("[", absl::StrJoin(numbers, ","), "]");
  };
  // A dilated maximum is no pooling of the library, nor is a mean in which padding counts that is not declared.
  *library = max ? flag == 0 : !(flag == 1 && ceil_mode);
  return GraphWithWeights(
      absl::StrCat("input x: f32[2,3,", height, ",", width, "]\nstate u: f32[", channels, ",3,1,1]\nstate v: f32[4,",
                   channels, ",1,1]\n%1 = conv2d(x, u)\n%2 = ", max ? "max" : "avg", "_pool2d(%1, kernel=",
                   list(kernel), ", strides=", list(strides), ", pads=", list(pads), ", ceil_mode=", ceil_mode ? 1 : 0,
                   max ? absl::StrCat(", dilations=[", 1 + flag, ",1]") : absl::StrCat(", count_include_pad=", flag),
                   ")\n%3 = conv2d(%2, v)\noutput y = %3\n"),
      -1, 1, 3);
}

Graph RandomNormalization(Rng& rng) {
  const int64_t rows = RandomInt(rng, 1, 9), columns = RandomInt(rng, 2, 70), axis = RandomInt(rng, 1, 2);
  const std::string inner = axis == 1 ? absl::StrCat(rows, ",", columns) : absl::StrCat(columns);
  return GraphWithWeights(absl::StrCat("input x: f32[2,", rows, ",8]\nstate u: f32[8,", columns, "]\nstate v: f32[",
                                       columns, ",8]\nstate s: f32[", inner, "]\nstate b: f32[", inner,
                                       "]\n%1 = matmul(x, u)\n%2 = layer_norm(%1, s, b, axis=", axis,
                                       ", epsilon=0.001)\n%3 = matmul(%2, v)\noutput y = %3\n"),
                          -1, 1, 3);
}

TEST(CudaCalls, PoolingAndNormalizationAreDoneByTheFaster) {
  const auto library_steps = [](const Schedule& schedule) {
    const std::vector<std::string> labels = LabelsOf(schedule);
    return std::count_if(labels.begin(), labels.end(),
                         [](const std::string& label) { return label.find("(library)") != std::string::npos; });
  };
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kFp16, cuda::Precision::kBf16}) {
    for (bool slow : {false, true}) {
      cuda::CudaOptions options;
      options.precision = precision;
      options.channels_last = precision != cuda::Precision::kFp32;
      HostGpuCounts counts;
      const auto device = HostDevice(options, &counts, {.first_ways = slow});
      Rng rng(5);
      std::vector<GraphCase> cases;
      // Where both are tried, each kernel is compiled by itself.
      for (int i = 0; i < (slow ? 4 : Cases(120)); ++i) {
        bool library = true;
        const Graph graph = i % 4 == 3 ? RandomNormalization(rng) : RandomPooling(rng, &library);
        ASSERT_FALSE(graph.outputs().empty());
        auto schedule = device->Compile(graph);
        ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
        const auto steps = library_steps(*schedule);
        if (slow || !library) {
          // A mean with padding stays with the library where no window reaches beyond what is declared.
          EXPECT_TRUE(steps == 0 || (!slow && PrintGraph(graph).find("avg_pool2d") != std::string::npos));
        } else {
          EXPECT_EQ(steps, 1) << PrintGraph(graph);
        }
        cases.push_back({absl::StrCat("case ", i), graph, {}, -1, 1});
      }
      EXPECT_EQ(counts.pools > 0, slow);
      EXPECT_EQ(counts.norms > 0, slow);
      ExpectAllAgree(*device, std::move(cases),
                     precision == cuda::Precision::kFp32   ? 1e-5
                     : precision == cuda::Precision::kFp16 ? 8e-3
                                                           : 6e-2);
      EXPECT_GT(counts.pools, 0);
      EXPECT_GT(counts.norms, 0);
    }
  }
}

}  // namespace
}  // namespace rewright
