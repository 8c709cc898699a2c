// Tests one compiled model, run by several threads at a time. (bench/full runs this under ThreadSanitizer: every kernel
// then uses one thread, since the OpenMP runtime is not instrumented and its barriers are invisible to it.)
#include <thread>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr int kKernelThreads = 1;
#else
constexpr int kKernelThreads = 2;
#endif
constexpr int kThreads = 4;

// Every thread passes its own inputs, several times, and must get the results of a single thread.
void ExpectSameFromThreads(GraphRunner& runner, const Graph& graph) {
  SCOPED_TRACE(PrintGraph(graph));
  const auto executable = runner.Prepare(graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<std::vector<Tensor>> inputs, expected(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    inputs.push_back(*RandomInputs(graph, static_cast<uint64_t>(t)));
    ASSERT_TRUE((*executable)->Run(inputs[t], &expected[t]).ok());
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Tensor> found;
      for (int run = 0; run < 6; ++run) {
        const int k = (t + run) % kThreads;
        const absl::Status status = (*executable)->Run(inputs[k], &found);
        EXPECT_TRUE(status.ok()) << status;
        for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].BitEqual(expected[k][i])) << "output " << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Convolutions and pooling of oneDNN, kernels of this program, concatenation in place, gather, and an operator that the
// interpreter runs; constants folded and packed.
constexpr char kModel[] = R"(
input x: f32[2,8,12,12]
input ids: i64[2,5]
state w: f32[16,8,3,3]
state s: f32[16]
state b: f32[16]
state m: f32[16]
state v: f32[16]
state d: f32[32,16]
state t: f32[9,16]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = batch_norm(%1, s, b, m, v)
%3 = relu(%2)
%4 = max_pool2d(%3, kernel=[2,2], strides=[2,2])
%5 = lrn(%4, size=3, alpha=0.1, beta=0.75, bias=1.0)
%6 = concat(%4, %5, axis=1)
%7 = reduce_mean(%6, axes=[2,3])
%16 = reshape(%7, shape=[2,32])
%8 = matmul(%16, d)
%9 = softmax(%8)
%10 = gather(t, ids)
%11 = layer_norm(%10, s, b)
%12 = gelu(%11)
%13 = transpose(%12, perm=[0,2,1])
%14 = matmul(%12, %13)
%15 = argmax(%14, axis=2)
output y = %9
output z = %14
output k = %15
)";

TEST(Threads, RunOneCompiledModel) {
  const auto device = MakeDevice("cpu", {kKernelThreads});
  ASSERT_TRUE(device.ok()) << device.status();
  const Graph graph = GraphWithWeights(kModel, 0.1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  ExpectSameFromThreads(*MakeGraphRunner(**device), graph);
}

TEST(Threads, RunRandomGraphs) {
  const auto device = MakeDevice("cpu", {kKernelThreads});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto runner = MakeGraphRunner(**device);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(Cases(20)); ++seed) {
    ExpectSameFromThreads(*runner, RandomImageGraph(seed, 10));
    ExpectSameFromThreads(*runner, RandomMatrixGraph(seed, 10));
  }
}

TEST(Threads, RunTheReference) { ExpectSameFromThreads(*MakeReferenceRunner(2), RandomImageGraph(1, 6)); }

// Several threads compile at once.
TEST(Threads, CompileOnOneDevice) {
  const auto device = MakeDevice("cpu", {kKernelThreads});
  ASSERT_TRUE(device.ok()) << device.status();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Graph graph = GraphWithWeights(kModel, 0.1, 1, t);  // arenas are not shared
      EXPECT_TRUE(MakeGraphRunner(**device)->Prepare(graph).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rewright
