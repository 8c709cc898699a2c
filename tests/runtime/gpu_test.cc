// Compares the CUDA device on a GPU with the reference interpreter. Skipped without a GPU.
#include <ostream>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

struct PrecisionCase {
  std::string name;
  double tolerance;  // for the largest element: products of rounded factors, or values rounded at every kernel
};
void PrintTo(const PrecisionCase& precision, std::ostream* out) { *out << precision.name; }

class Gpu : public testing::TestWithParam<PrecisionCase> {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.precision = GetParam().name;
    auto device = MakeDevice("cuda:0", options);
    if (absl::IsNotFound(device.status())) GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status().ToString();
    device_ = *std::move(device);
    runner_ = MakeGraphRunner(*device_);
  }

  void ExpectRuns(const Graph& graph, double low, double high, uint64_t seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", PrintGraph(graph)));
    auto executable = runner_->Prepare(graph);
    ASSERT_TRUE(executable.ok()) << executable.status().ToString();
    const auto run = [&](const std::vector<Tensor>& inputs) -> absl::StatusOr<std::vector<Tensor>> {
      std::vector<Tensor> outputs;
      absl::Status status = (*executable)->Run(inputs, &outputs);
      if (status.ok()) status = (*executable)->RunAgain(inputs, &outputs);  // the recorded graph, once more
      if (status.ok()) status = (*executable)->Run(inputs, &outputs);
      if (!status.ok()) return status;
      return outputs;
    };
    ExpectAgrees(run, graph, low, high, seed, GetParam().tolerance);
  }

  // GPU time is limited: a test reports all faults, up to a number that an unusable GPU reaches at once.
  static constexpr int kMostFailures = 8;
  static int Failures() {
    const testing::TestResult& result = *testing::UnitTest::GetInstance()->current_test_info()->result();
    int failures = 0;
    for (int i = 0; i < result.total_part_count(); ++i) failures += result.GetTestPartResult(i).failed();
    return failures;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<GraphRunner> runner_;
};

TEST_P(Gpu, EveryOperatorAgreesWithTheInterpreter) {
  Rng rng(7);
  for (const OpDef* op : OpsOfGpus()) {
    const int before = Failures();
    for (int i = 0; i < Cases(40) && Failures() == before; ++i) {
      OpSample sample;
      const Graph graph = RandomApplication(*op, rng, &sample);
      if (!IsOfGpus(graph)) continue;
      ExpectRuns(graph, sample.low, sample.high, static_cast<uint64_t>(i));
    }
    if (Failures() >= kMostFailures) return;
  }
}

TEST_P(Gpu, RandomGraphsAgreeWithTheInterpreter) {
  for (int seed = 0; seed < Cases(200); ++seed) {
    ExpectRuns(RandomImageGraph(static_cast<uint64_t>(seed), 4 + seed % 17), -1, 1, static_cast<uint64_t>(seed));
    ExpectRuns(RandomMatrixGraph(static_cast<uint64_t>(seed), 4 + seed % 17), -1, 1, static_cast<uint64_t>(seed));
    if (Failures() >= kMostFailures) return;
  }
}

// Sizes at which every thread takes several elements, rows of whole and partial vectors, and tiles.
TEST_P(Gpu, LargeKernelsAgree) {
  const char* bodies[] = {
      "%1 = softmax(x, axis=2)",
      "%0 = transpose(x, perm=[0,2,1])\n%1 = exp(%0)",
      "%0 = reduce_mean(x, axes=[2])\n%2 = sub(x, %0)\n%1 = relu(%2)",
      "%0 = transpose(x, perm=[0,2,1])\n%1 = matmul(x, %0)",
  };
  for (const char* shape : {"4,256,512", "3,257,515"}) {
    for (const char* body : bodies) {
      const auto graph = ParseGraph(absl::StrCat("input x: f32[", shape, "]\n", body, "\noutput y = %1\n"));
      ASSERT_TRUE(graph.ok()) << graph.status().ToString();
      ExpectRuns(*graph, -2, 2, 3);
    }
  }
}

// Sums of 64 to 512 products, as in networks; attention as one call in 16 bits, and products of adjacent heads in 32.
TEST_P(Gpu, AttentionAgrees) {
  const auto graph = ParseGraph(R"(
input q: f32[2,128,12,64]
input k: f32[2,128,12,64]
input v: f32[2,128,12,64]
input m: f32[2,1,1,128]
const %0: f32[] = [8]
%8 = relu(q)
%9 = transpose(%8, perm=[0,2,1,3])
%10 = relu(k)
%11 = transpose(%10, perm=[0,2,3,1])
%12 = relu(v)
%13 = transpose(%12, perm=[0,2,1,3])
%1 = matmul(%9, %11)
%2 = div(%1, %0)
%3 = add(%2, m)
%4 = softmax(%3, axis=3)
%5 = matmul(%4, %13)
%6 = transpose(%5, perm=[0,2,1,3])
%7 = reshape(%6, shape=[2,128,768])
output y = %7
)");
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  ExpectRuns(*graph, -1, 1, 1);
}

// First and last layers of a convolutional network: images of 3 channels, a mean with channels innermost.
TEST_P(Gpu, EndsOfNetworksAgree) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[2,3,37,41]
state a: f32[100,3,7,7]
%1 = conv2d(x, a, strides=[2,2], pads=[3,3,3,3])
%2 = relu(%1)
%3 = max_pool2d(%2, kernel=[3,3], strides=[2,2], pads=[1,1,1,1])
%4 = reduce_mean(%3, axes=[2,3])
output y = %4
)",
                                       -0.1, 0.1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  for (uint64_t seed = 0; seed < 3; ++seed) ExpectRuns(graph, -1, 1, seed);
}

// Branches of a module, products of one value: in order or concurrently, whichever is faster.
TEST_P(Gpu, BranchesAgree) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[1,64,28,28]
state a: f32[64,64,1,1]
state b: f32[32,64,1,1]
state c: f32[48,32,3,3]
state d: f32[23,64,1,1]
state e: f32[135,135,3,3]
state s: f32[135,135,1,1]
state q: f32[28,31]
state k: f32[28,64]
state v: f32[28,17]
%1 = conv2d(x, a)
%2 = relu(%1)
%3 = conv2d(x, b)
%4 = conv2d(%3, c, pads=[1,1,1,1])
%5 = avg_pool2d(x, kernel=[3,3], pads=[1,1,1,1])
%6 = conv2d(%5, d)
%7 = concat(%2, %4, %6, axis=1)
%8 = conv2d(%7, e, pads=[1,1,1,1])
%9 = conv2d(%7, s)
%10 = add(%8, %9)
%11 = matmul(%10, q)
%12 = matmul(%10, k)
%13 = matmul(%10, v)
%14 = reduce_sum(%11, axes=[3])
%15 = reduce_max(%12, axes=[3])
%16 = mul(%14, %15)
output y = %16
output z = %13
)",
                                       -0.1, 0.1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  for (uint64_t seed = 0; seed < 3; ++seed) ExpectRuns(graph, -1, 1, seed);
}

// Queues wait for one another as required, enqueued and replayed: every step slowly adds the results of others.
TEST(GpuQueues, KeepTheirOrder) {
  auto opened = cuda::OpenGpu(0);
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  cuda::Gpu& gpu = **opened;
  constexpr int64_t kElements = 1 << 20;
  constexpr int kThreads = 256, kSteps = 6;
  std::vector<std::shared_ptr<const cuda::Function>> functions;
  ASSERT_EQ(gpu.Compile("", {{"rewright_slow_sum", R"(
extern "C" __global__ void rewright_slow_sum(const float* a, const float* b, float* out) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 64; ++k) sum += (a[i] + b[i]) * (1.0f / 64);
  out[i] = sum;
})"}},
                        &functions),
            "");
  // Step i writes value i + 1; value 0 is the input.
  const int operands[kSteps][2] = {{0, 0}, {0, 1}, {0, 0}, {3, 1}, {2, 4}, {5, 3}};
  const std::vector<QueueStep> queues = {{0, {}}, {0, {}}, {1, {}}, {2, {0, 2}}, {0, {3}}, {1, {4}}};
  std::vector<std::shared_ptr<void>> values;
  for (int i = 0; i <= kSteps; ++i) {
    void* memory = nullptr;
    ASSERT_EQ(gpu.Allocate(kElements * sizeof(float), &memory), "");
    values.emplace_back(memory, [&gpu](void* p) { gpu.Free(p); });
  }
  const auto enqueue = [&](int i) {
    void* const arguments[] = {values[operands[i][0]].get(), values[operands[i][1]].get(), values[i + 1].get()};
    return functions[0]->Launch(kElements / kThreads, kThreads, arguments, 3);
  };
  std::unique_ptr<cuda::Recording> recording;
  for (int round = 0; round < 20; ++round) {
    std::vector<float> numbers(kElements, static_cast<float>(round + 1));
    ASSERT_EQ(gpu.CopyIn(values[0].get(), numbers.data(), kElements * sizeof(float)), "");
    if (round == 0) {
      ASSERT_EQ(gpu.RunQueues(queues, enqueue), "");
    } else {
      if (round == 1) {
        ASSERT_EQ(gpu.Record([&] { return gpu.RunQueues(queues, enqueue); }, &recording), "");
      }
      ASSERT_EQ(recording->Run(), "");
    }
    ASSERT_EQ(gpu.CopyOut(numbers.data(), values[kSteps].get(), kElements * sizeof(float)), "");
    // 2, 3, 2, 4, 7, 9 times the input.
    for (float number : numbers) ASSERT_NEAR(number, 9.0 * (round + 1), 1e-3 * (round + 1)) << "round " << round;
  }
}

// The tolerance: hardware may truncate factors to tf32 instead of rounding them (2^-10), and layers add up.
INSTANTIATE_TEST_SUITE_P(Precisions, Gpu,
                         testing::Values(PrecisionCase{"f32", 1e-5}, PrecisionCase{"tf32", 1e-2},
                                         PrecisionCase{"f16", 6e-3}, PrecisionCase{"bf16", 4e-2}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rewright
