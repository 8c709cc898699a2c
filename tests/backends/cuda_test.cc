// The CUDA device on a processor that stands for the GPU: what it fuses, lowers and generates against the reference
// interpreter.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cuda/codegen/half.h"
#include "backends/cuda/cuda_device.h"
#include "core/ir/text.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

// `count` random applications of every operator, its operands as inputs.
std::vector<GraphCase> GraphsOfEveryOperator(int count, uint64_t seed) {
  std::vector<GraphCase> cases;
  Rng rng(seed);
  for (const OpDef* op : OpsOfGpus()) {
    for (int i = 0; i < count; ++i) {
      OpSample sample;
      Graph graph = RandomApplication(*op, rng, &sample);
      if (!IsOfGpus(graph)) continue;
      cases.push_back({absl::StrCat(op->name, " ", i), std::move(graph), {}, sample.low, sample.high});
    }
  }
  return cases;
}

TEST(Cuda, EveryOperatorAgreesWithTheInterpreter) {
  HostGpuCounts counts;
  const auto device = HostDevice({}, &counts);
  ExpectAllAgree(*device, GraphsOfEveryOperator(Cases(60), 7));
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

// Values stored in 16 bits are rounded at every kernel: by 2^-11 and 2^-8 of the number.
TEST(Cuda, HalfPrecisionIsNear) {
  for (auto [precision, tolerance] :
       {std::pair(cuda::Precision::kFp16, 4e-3), std::pair(cuda::Precision::kBf16, 3e-2)}) {
    cuda::CudaOptions options;
    options.precision = precision;
    options.channels_last = true;
    const auto device = HostDevice(options);
    ExpectAllAgree(*device, GraphsOfEveryOperator(Cases(20), 3), tolerance);
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
  const auto device = HostDevice(options, &counts, {.first_ways = true});
  auto schedule = device->Compile(*graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  EXPECT_THAT(LabelsOf(*schedule), testing::Contains("matmul+div+add+softmax+matmul"));
  ExpectAgrees(*std::move(schedule), *graph, -1, 1, 1, 4e-3);
  EXPECT_GT(counts.attentions, 0);
  for (const Group& group : device->Partition(*graph)) EXPECT_TRUE(device->Cost(*graph, group).ok());

  // In parts, where these are faster.
  HostGpuCounts slower;
  auto faster = HostDevice(options, &slower)->Compile(*graph);
  ASSERT_TRUE(faster.ok()) << faster.status().ToString();
  EXPECT_THAT(LabelsOf(*faster), testing::Not(testing::Contains("matmul+div+add+softmax+matmul")));
  EXPECT_EQ(slower.attentions, 0);

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

// Graphs that look like attention and are something else stay apart.
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
    EXPECT_THAT(LabelsOf(*schedule), testing::Not(testing::Contains(testing::HasSubstr("softmax+matmul")))) << text;
    ExpectAgrees(*std::move(schedule), *graph, -1, 1, 1, 3e-2);
  }
}

TEST(Cuda, CostsAreMeasuredOnce) {
  const std::string path = TemporaryFile("cuda_costs.db");
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

// Weights are converted when the graph is compiled, and those that are not read any more are freed.
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
  EXPECT_THAT(LabelsOf(*schedule), testing::ElementsAre("reorder", "conv2d", "reorder", "matmul"));
  size_t bytes = 0;
  for (const Buffer& buffer : schedule->buffers) {
    if (buffer.kind == Buffer::Kind::kConstant && buffer.data != nullptr && buffer.alias_of < 0) bytes += buffer.bytes;
  }
  EXPECT_EQ(bytes, 2u * (8 * 8 * 3 * 3 + 6 * 16));
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, 3e-2);
}

// Whatever the libraries do not take, generated kernels compute.
TEST(Cuda, RunsWithoutLibraries) {
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kBf16}) {
    cuda::CudaOptions options;
    options.precision = precision;
    options.channels_last = precision != cuda::Precision::kFp32;
    HostGpuCounts counts;
    const auto device = HostDevice(options, &counts, {.no_products = true, .no_attention = true});
    std::vector<GraphCase> cases = RandomGraphs(12);
    cases.push_back({"attention", *ParseGraph(kAttention), {}, -1, 1});
    ExpectAllAgree(*device, std::move(cases), precision == cuda::Precision::kFp32 ? 1e-5 : 3e-2);
    EXPECT_EQ(counts.calls + counts.attentions + counts.pools + counts.norms, 0);
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
