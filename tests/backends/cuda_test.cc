// The CUDA device on a processor that stands for the GPU: what it fuses, lowers and generates against the reference
// interpreter.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/half.h"
#include "core/ir/text.h"
#include "core/ops/common.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu_runner_util.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

std::unique_ptr<Device> HostDevice(cuda::CudaOptions options = {}, HostGpuCounts* counts = nullptr,
                                   const HostGpuOptions& lacks = {}) {
  options.min_vectorized = 8;
  auto profile = ProfileDb::Open("");
  EXPECT_TRUE(profile.ok());
  return cuda::MakeCudaDevice(MakeHostGpu(counts, lacks), *std::move(profile), options);
}

struct Case {
  std::string name;
  Graph graph;
  Schedule schedule;
  double low = -2, high = 2;
};

// Kernels of all cases are compiled together at the first run.
void ExpectAllAgree(Device& device, std::vector<Case> cases, double tolerance = 1e-5) {
  for (Case& c : cases) {
    auto schedule = device.Compile(c.graph);
    ASSERT_TRUE(schedule.ok()) << c.name << ": " << schedule.status().ToString();
    c.schedule = *std::move(schedule);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(absl::StrCat(cases[i].name, "\n", PrintGraph(cases[i].graph)));
    ExpectAgrees(std::move(cases[i].schedule), cases[i].graph, cases[i].low, cases[i].high, i, tolerance);
    if (testing::Test::HasFailure()) return;
  }
}

// `count` random applications of every operator, its operands as inputs.
std::vector<Case> EveryOperator(int count, uint64_t seed) {
  std::vector<Case> cases;
  Rng rng(seed);
  for (const OpDef* op : OpsOfGpus()) {
    for (int i = 0; i < count; ++i) {
      OpSample sample;
      Graph graph = RandomApplication(*op, rng, &sample);
      cases.push_back({absl::StrCat(op->name, " ", i), std::move(graph), {}, sample.low, sample.high});
    }
  }
  return cases;
}

std::vector<Case> RandomGraphs(int count) {
  std::vector<Case> cases;
  for (int seed = 0; seed < count; ++seed) {
    const uint64_t number = static_cast<uint64_t>(seed);
    cases.push_back({absl::StrCat("images ", seed), RandomImageGraph(number, 4 + seed % 17), {}, -1, 1});
    cases.push_back({absl::StrCat("matrices ", seed), RandomMatrixGraph(number, 4 + seed % 17), {}, -1, 1});
  }
  return cases;
}

TEST(Cuda, EveryOperatorAgreesWithTheInterpreter) {
  HostGpuCounts counts;
  const auto device = HostDevice({}, &counts);
  ExpectAllAgree(*device, EveryOperator(Cases(60), 7));
  EXPECT_GT(counts.kernels, static_cast<int>(AllOps().size()));
  EXPECT_GT(counts.calls, 0);
}

TEST(Cuda, OpaqueOperatorsAreRefused) {
  const auto graph = ParseGraph("input x: f32[3,7]\n%0 = exp(x)\n%1.0, %1.1 = top_k(%0, k=2)\noutput y = %1.1\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status status = HostDevice()->Compile(*graph).status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("top_k has no index expression: it runs on the host alone"));
}

TEST(Cuda, RandomGraphsAgreeWithTheInterpreter) {
  const auto device = HostDevice();
  ExpectAllAgree(*device, RandomGraphs(Cases(400)));
}

TEST(Cuda, ImagesWithChannelsInnermostAgree) {
  cuda::CudaOptions options;
  options.channels_last = true;
  const auto device = HostDevice(options);
  ExpectAllAgree(*device, RandomGraphs(Cases(200)));
}

// What is stored in 16 bits is rounded at every kernel: 2^-11 and 2^-8 of the number.
TEST(Cuda, HalfPrecisionIsNear) {
  for (auto [precision, tolerance] :
       {std::pair(cuda::Precision::kFp16, 4e-3), std::pair(cuda::Precision::kBf16, 3e-2)}) {
    cuda::CudaOptions options;
    options.precision = precision;
    options.channels_last = true;
    const auto device = HostDevice(options);
    ExpectAllAgree(*device, EveryOperator(Cases(20), 3), tolerance);
    ExpectAllAgree(*device, RandomGraphs(Cases(100)), tolerance);
  }
}

TEST(Cuda, HalfPrecisionRoundsToNearest) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = cuda::FromFp16Bits(static_cast<uint16_t>(bits));
    const float brain = cuda::FromBf16Bits(static_cast<uint16_t>(bits));
    ASSERT_TRUE(std::isnan(half) || cuda::Fp16Bits(half) == bits) << bits;
    ASSERT_TRUE(std::isnan(brain) || cuda::Bf16Bits(brain) == bits) << bits;
    // Between two neighbours: the even one, and the nearer one.
    const float next = cuda::FromFp16Bits(static_cast<uint16_t>(bits + 1));
    if (bits >= 0x7bff || std::isnan(next) || std::isinf(next)) continue;
    const float middle = (half + next) / 2;
    ASSERT_EQ(cuda::Fp16Bits(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(cuda::Fp16Bits(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(cuda::Fp16Bits(std::nextafter(middle, 1e30f)), bits + 1);
  }
  EXPECT_EQ(cuda::Fp16Bits(65519.0f), 0x7bff);
  EXPECT_EQ(cuda::Fp16Bits(65520.0f), 0x7c00);
  EXPECT_TRUE(std::isnan(cuda::FromFp16Bits(cuda::Fp16Bits(NAN))));
  EXPECT_TRUE(std::isnan(cuda::FromBf16Bits(cuda::Bf16Bits(NAN))));
}

// Which groups a graph becomes, and the shape of the kernels.
std::vector<std::string> Labels(const Schedule& schedule) {
  std::vector<std::string> labels;
  for (const Step& step : schedule.steps) {
    labels.push_back(step.label);
  }
  return labels;
}

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

TEST(Cuda, FusesEpiloguesAndMoves) {
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
  EXPECT_THAT(Labels(*schedule), testing::ElementsAre("conv2d+add+add+relu", testing::HasSubstr("softmax")));
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 1);
}

constexpr char kAttention[] = R"(
input q: f32[2,5,3,16]
input k: f32[2,7,3,16]
input v: f32[2,7,3,8]
input m: f32[2,1,1,7]
const %0: f32[] = [4]
%1 = transpose(q, perm=[0,2,1,3])
%2 = transpose(k, perm=[0,2,3,1])
%3 = transpose(v, perm=[0,2,1,3])
%4 = matmul(%1, %2)
%5 = div(%4, %0)
%6 = add(%5, m)
%7 = softmax(%6, axis=3)
%8 = matmul(%7, %3)
%9 = transpose(%8, perm=[0,2,1,3])
%10 = reshape(%9, shape=[2,5,24])
output y = %10
)";

TEST(Cuda, AttentionIsOneCallInHalfPrecision) {
  const auto graph = ParseGraph(kAttention);
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  cuda::CudaOptions options;
  options.precision = cuda::Precision::kFp16;
  HostGpuCounts counts;
  const auto device = HostDevice(options, &counts);
  auto schedule = device->Compile(*graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  EXPECT_THAT(Labels(*schedule), testing::Contains("matmul+div+add+softmax+matmul"));
  ExpectAgrees(*std::move(schedule), *graph, -1, 1, 1, 4e-3);
  EXPECT_GT(counts.attentions, 0);
  EXPECT_EQ(counts.calls, 0);
  for (const Group& group : device->Partition(*graph)) EXPECT_TRUE(device->Cost(*graph, group).ok());

  // The library has none: in parts. And in 32 bits there is none.
  HostGpuCounts parts;
  cuda::CudaOptions both[] = {options, {}};
  for (const cuda::CudaOptions& each : both) {
    const auto other = HostDevice(each, &parts, {.no_attention = true});
    auto in_parts = other->Compile(*graph);
    ASSERT_TRUE(in_parts.ok()) << in_parts.status().ToString();
    ExpectAgrees(*std::move(in_parts), *graph, -1, 1, 1, 4e-3);
  }
  EXPECT_EQ(parts.attentions, 0);
  EXPECT_GT(parts.calls, 0);
}

// What looks alike and is something else stays apart.
TEST(Cuda, AttentionNeedsTheWholePattern) {
  cuda::CudaOptions options;
  options.precision = cuda::Precision::kBf16;
  const auto device = HostDevice(options);
  const std::pair<const char*, const char*> changes[] = {
      {"softmax(%6, axis=3)", "softmax(%6, axis=2)"},       // over the queries
      {"%5 = div(%4, %0)", "%5 = div(%4, m)"},              // the scale is no constant
      {"output y = %10", "output y = %10\noutput z = %7"},  // the probabilities are read elsewhere
      {"f32[2,7,3,8]", "f32[2,7,3,9]"},                     // an odd depth
  };
  for (const auto& [from, to] : changes) {
    std::string text = kAttention;
    text.replace(text.find(from), std::string(from).size(), to);
    if (std::string(to).find("3,9") != std::string::npos) text.replace(text.find("2,5,24"), 6, "2,5,27");
    const auto graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << text << graph.status().ToString();
    auto schedule = device->Compile(*graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
    EXPECT_THAT(Labels(*schedule), testing::Not(testing::Contains(testing::HasSubstr("softmax+matmul")))) << text;
    ExpectAgrees(*std::move(schedule), *graph, -1, 1, 1, 3e-2);
  }
}

TEST(Cuda, CostsAreMeasuredOnce) {
  const std::string path = testing::TempDir() + "/cuda_costs.db";
  std::remove(path.c_str());
  const Graph graph = RandomImageGraph(3, 10);
  double measured = 0;
  {
    auto profile = ProfileDb::Open(path);
    ASSERT_TRUE(profile.ok());
    const auto device = cuda::MakeCudaDevice(MakeHostGpu(), *std::move(profile), {});
    for (const Group& group : device->Partition(graph)) {
      const auto cost = device->Cost(graph, group);
      ASSERT_TRUE(cost.ok()) << cost.status().ToString();
      measured += *cost;
    }
    EXPECT_GT(measured, 0);
  }
  // The same GPU where it is not.
  auto profile = ProfileDb::Open(path);
  ASSERT_TRUE(profile.ok());
  const auto device = cuda::MakeProfiledCudaDevice(*std::move(profile), {});
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  EXPECT_FALSE((*device)->runs());
  double known = 0;
  for (const Group& group : (*device)->Partition(graph)) {
    const auto cost = (*device)->Cost(graph, group);
    ASSERT_TRUE(cost.ok()) << cost.status().ToString();
    known += *cost;
  }
  EXPECT_DOUBLE_EQ(known, measured);
  const Graph other = RandomImageGraph(4, 10);
  bool missing = false;
  for (const Group& group : (*device)->Partition(other)) {
    const auto cost = (*device)->Cost(other, group);
    missing = missing || cost.status().code() == absl::StatusCode::kNotFound;
  }
  EXPECT_TRUE(missing);
  EXPECT_EQ((*device)->Compile(graph).status().code(), absl::StatusCode::kUnimplemented);

  auto empty = ProfileDb::Open("");
  ASSERT_TRUE(empty.ok());
  const auto none = cuda::MakeProfiledCudaDevice(*std::move(empty), {});
  EXPECT_THAT(none.status().ToString(), testing::HasSubstr("holds times of 0 GPUs"));
}

// Costs are those of operands in memory: what is read in turn, weights too, exceeds the cache twice.
TEST(Cuda, CostsAreMeasuredOnMoreThanTheCache) {
  const Graph graph =
      GraphWithWeights("input x: f32[1,3]\nstate w: f32[3,64]\n%1 = matmul(x, w)\noutput y = %1\n", -1, 1, 1);
  HostGpuCounts counts;
  const auto device = HostDevice({}, &counts);
  const auto cost = device->Cost(graph, device->Partition(graph)[0]);
  ASSERT_TRUE(cost.ok()) << cost.status().ToString();
  const int64_t cache = MakeHostGpu()->description().l2_bytes;
  EXPECT_GE(counts.peak_bytes, 2 * cache);
  EXPECT_GE(static_cast<int64_t>(counts.factors.size()), 2 * cache / 4096) << "a set has less than 4096 bytes";
}

TEST(Cuda, ConcatenationsAreWrittenInPlace) {
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
    // Of five parts, two are copied: an input, and what a generated kernel gives.
    EXPECT_THAT(Labels(*schedule), testing::Contains("concat").Times(2));
    ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, precision == cuda::Precision::kFp16 ? 6e-3 : 1e-5);
  }
  // No engine for results with gaps between rows: every part is copied.
  const auto dense = HostDevice({}, nullptr, {.no_gaps = true});
  auto copied = dense->Compile(graph);
  ASSERT_TRUE(copied.ok()) << copied.status().ToString();
  EXPECT_THAT(Labels(*copied), testing::Contains("concat").Times(5));
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
    EXPECT_THAT(Labels(*schedule), testing::UnorderedElementsAre("matmul", "matmul+relu"));
    ExpectAgrees(*std::move(schedule), products, -1, 1, 3);
    for (const Group& group : device->Partition(products)) {
      const bool concat = products.node(group.nodes[0]).op->name == "concat";
      EXPECT_EQ(*device->Cost(products, group) == 0, concat);
    }
  }
}

// What follows a convolution is a kernel of its own where the library has no engine for both.
TEST(Cuda, ConvolutionsStayCallsWithoutTheirEpilogue) {
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
  EXPECT_THAT(Labels(*schedule), testing::ElementsAre("conv2d+add", "add+relu", "conv2d+relu", "conv2d+add+relu"));
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 1);
  ExpectAllAgree(*device, RandomGraphs(Cases(20)));
}

// A depthwise convolution and its epilogue are one call or two steps, whichever is faster.
TEST(Cuda, DepthwiseConvolutionsAreTriedBothWays) {
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
      const std::vector<std::string> labels = Labels(*schedule);
      const auto steps = std::count_if(labels.begin(), labels.end(), [](const auto& l) { return l != "reorder"; });
      EXPECT_EQ(steps, first ? 2 : 3) << absl::StrJoin(labels, ", ");
      EXPECT_THAT(labels, testing::Contains(first ? "conv2d+add+relu" : "add+relu"));
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, precision == cuda::Precision::kFp32 ? 1e-5 : 3e-2);
    }
  }
}

// Weights are converted when the graph is compiled, and what nobody reads of them is freed.
TEST(Cuda, WeightsAreConvertedOnce) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[1,8,6,6]
state w: f32[8,8,3,3]
state u: f32[6,16]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = matmul(%1, u)
output y = %2
)",
                                       -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  cuda::CudaOptions options;
  options.precision = cuda::Precision::kBf16;
  options.channels_last = true;
  const auto device = HostDevice(options);
  auto schedule = device->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  // In front the image, behind it what the product reads, at the end the result.
  EXPECT_THAT(Labels(*schedule), testing::ElementsAre("reorder", "conv2d", "reorder", "matmul"));
  size_t bytes = 0;
  for (const Buffer& buffer : schedule->buffers) {
    if (buffer.kind == Buffer::Kind::kConstant && buffer.data != nullptr && buffer.alias_of < 0) bytes += buffer.bytes;
  }
  EXPECT_EQ(bytes, 2u * (8 * 8 * 3 * 3 + 6 * 16));
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, 3e-2);
}

// GELU ends a product; the error function's is compared with a kernel of its own.
TEST(Cuda, ProductsEndInGelu) {
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
      EXPECT_THAT(Labels(*schedule), testing::Contains(whole ? absl::StrCat("matmul+add+", gelu) : gelu));
      EXPECT_EQ(schedule->steps.size(), whole ? 1u : 2u);
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 1);
    }
  }
}

// What is added to a product is added by it, though it has another shape.
TEST(Cuda, SumsReachThroughReshapes) {
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
    EXPECT_THAT(Labels(*schedule), testing::Contains("matmul+add+reshape+add"));
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
  EXPECT_THAT(Labels(*whole), testing::ElementsAre("matmul+reshape+gelu_tanh"));
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
  EXPECT_THAT(Labels(*apart), testing::Contains("matmul"));
  ExpectAgrees(*std::move(apart), other, -1, 1, 1);
}

// Whatever the libraries do not take, generated kernels compute.
TEST(Cuda, RunsWithoutLibraries) {
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kBf16}) {
    cuda::CudaOptions options;
    options.precision = precision;
    options.channels_last = precision != cuda::Precision::kFp32;
    HostGpuCounts counts;
    const auto device = HostDevice(options, &counts, {.no_products = true, .no_attention = true});
    std::vector<Case> cases = RandomGraphs(12);
    cases.push_back({"attention", *ParseGraph(kAttention), {}, -1, 1});
    ExpectAllAgree(*device, std::move(cases), precision == cuda::Precision::kFp32 ? 1e-5 : 3e-2);
    EXPECT_EQ(counts.calls + counts.attentions + counts.pools + counts.norms, 0);
  }
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

TEST(Cuda, PoolingAndNormalizationAreDoneByTheFaster) {
  const auto library_steps = [](const Schedule& schedule) {
    const std::vector<std::string> labels = Labels(schedule);
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
      std::vector<Case> cases;
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

TEST(Cuda, SaysWhatIsTooLarge) {
  const Graph graph = RandomImageGraph(3, 10);
  for (int64_t memory : {int64_t{256}, int64_t{2048}}) {
    const auto device = HostDevice({}, nullptr, {.memory = memory});
    absl::Status status = device->Compile(graph).status();
    if (status.ok()) {
      for (const Group& group : device->Partition(graph)) status.Update(device->Cost(graph, group).status());
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_THAT(status.ToString(), testing::HasSubstr(absl::StrCat(" of ", memory, " free: out of memory")));
  }
}

TEST(Cuda, OldGpusRefusePrecisions) {
  const cuda::GpuDescription old{"Tesla T4", "", 75}, recent{"NVIDIA H200", "", 90};
  EXPECT_THAT(cuda::CheckPrecision(old, cuda::Precision::kTf32).ToString(),
              testing::HasSubstr("precision tf32 needs compute capability 8.0; Tesla T4 has 7.5"));
  EXPECT_FALSE(cuda::CheckPrecision(old, cuda::Precision::kBf16).ok());
  EXPECT_TRUE(cuda::CheckPrecision(old, cuda::Precision::kFp16).ok());
  EXPECT_TRUE(cuda::CheckPrecision(recent, cuda::Precision::kTf32).ok());
}

}  // namespace
}  // namespace rewright
