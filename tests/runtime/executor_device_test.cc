// Tests graphs on a device with its own memory, which a processor simulates.
#include <thread>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "runtime/measure/timing.h"
#include "runtime/reference_runner.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"
#include "tests/runtime/body_kernel_util.h"

namespace rewright {
namespace {

std::unique_ptr<Device> HostDevice(HostGpuCounts* counts = nullptr) {
  return cuda::MakeCudaDevice(MakeHostGpu(counts), *ProfileDb::Open(""), {});
}

TEST(DeviceExecutor, RunsAgreeWithTheReference) {
  const auto device = HostDevice();
  const auto runner = MakeGraphRunner(*device);
  const auto reference = MakeReferenceRunner(1);
  for (int seed = 0; seed < Cases(60); ++seed) {
    const Graph graph = RandomImageGraph(static_cast<uint64_t>(seed), 6 + seed % 9);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", PrintGraph(graph)));
    const auto executable = runner->Prepare(graph);
    ASSERT_TRUE(executable.ok()) << executable.status().ToString();
    const auto expected_run = reference->Prepare(graph);
    ASSERT_TRUE(expected_run.ok());
    // Inputs differ each time, so data left over from the run before would show.
    for (uint64_t run = 0; run < 3; ++run) {
      const std::vector<Tensor> inputs = *RandomInputs(graph, run);
      std::vector<Tensor> found, expected;
      ASSERT_TRUE((*executable)->Run(inputs, &found).ok());
      ASSERT_TRUE((*executable)->RunAgain(inputs, &found).ok());
      ASSERT_TRUE((*expected_run)->Run(inputs, &expected).ok());
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        const Comparison comparison = Compare(found[i], expected[i], 1e-3, 1e-3);
        EXPECT_TRUE(comparison.close) << comparison.text;
      }
    }
    EXPECT_GE((*executable)->arena_bytes(), (*executable)->peak_live_bytes());
  }
}

TEST(DeviceExecutor, TimesWithoutMovingInputs) {
  HostGpuCounts counts;
  const auto device = HostDevice(&counts);
  const auto runner = MakeGraphRunner(*device);
  const Graph graph = RandomMatrixGraph(1, 8);
  auto executable = runner->Prepare(graph);
  ASSERT_TRUE(executable.ok());
  const auto summary = TimeRuns(**executable, *RandomInputs(graph, 1), {});
  ASSERT_TRUE(summary.ok());
  EXPECT_GT(summary->median, 0);
}

TEST(DeviceExecutor, InputsAreChecked) {
  const auto device = HostDevice();
  const Graph graph = RandomMatrixGraph(1, 4);
  auto executable = MakeGraphRunner(*device)->Prepare(graph);
  ASSERT_TRUE(executable.ok());
  std::vector<Tensor> outputs;
  EXPECT_THAT((*executable)->Run({}, &outputs).ToString(), testing::HasSubstr("0 inputs given"));
  const std::vector<Tensor> wrong(graph.inputs().size(), Tensor({DType::kInt32, {1}}));
  EXPECT_THAT((*executable)->Run(wrong, &outputs).ToString(), testing::HasSubstr("is i32[1], expected f32"));
}

// The device has one queue of work: runs take turns, also with compilations.
TEST(DeviceExecutor, RunsOfSeveralThreadsTakeTurns) {
  const auto device = HostDevice();
  const auto runner = MakeGraphRunner(*device);
  const Graph graph = RandomImageGraph(5, 8);
  const auto executable = runner->Prepare(graph);
  ASSERT_TRUE(executable.ok()) << executable.status().ToString();
  std::vector<std::vector<Tensor>> expected(4);
  for (uint64_t t = 0; t < 4; ++t) ASSERT_TRUE((*executable)->Run(*RandomInputs(graph, t), &expected[t]).ok());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<Tensor> inputs = *RandomInputs(graph, t);
      std::vector<Tensor> found;
      for (int run = 0; run < 5; ++run) {
        EXPECT_TRUE((*executable)->Run(inputs, &found).ok());
        for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].BitEqual(expected[t][i])) << t;
      }
    });
  }
  EXPECT_TRUE(runner->Prepare(RandomImageGraph(6, 8)).ok());
  for (std::thread& thread : threads) thread.join();
}

// A state is copied in once; neither the run before the recording nor the recording changes it.
TEST(DeviceExecutor, StatesLastFromRunToRun) {
  const auto device = HostDevice();
  Schedule schedule;
  for (Buffer::Kind kind : {Buffer::Kind::kInput, Buffer::Kind::kState, Buffer::Kind::kOutput}) {
    schedule.buffers.push_back({kind, sizeof(float)});
  }
  auto first = std::make_shared<float>(10);
  schedule.buffers[1].data = first;
  Step step;
  step.label = "accumulate";
  step.buffers = {{0, Access::kRead}, {1, Access::kUpdate}, {2, Access::kWrite}};
  step.kernel = std::make_unique<BodyKernel>([](void* const* at) {
    *static_cast<float*>(at[2]) = *static_cast<float*>(at[1]) += *static_cast<const float*>(at[0]);
    return absl::OkStatus();
  });
  schedule.steps.push_back(std::move(step));
  schedule.inputs = {0};
  schedule.outputs = {2};
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {1}});
  const auto executor = Executor::Create(Graph(arena, {x}, {{x, "y"}}), std::move(schedule), *device->memory());
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  std::vector<Tensor> outputs;
  for (double total : {12, 14, 16}) {
    ASSERT_TRUE((*executor)->Run({Tensor::FromVector(DType::kFloat32, {1}, std::vector<int>{2})}, &outputs).ok());
    EXPECT_EQ(outputs[0].At(0), total);
  }
  ASSERT_TRUE((*executor)->RunAgain({}, &outputs).ok());
  ASSERT_TRUE((*executor)->Run({Tensor::FromVector(DType::kFloat32, {1}, std::vector<int>{2})}, &outputs).ok());
  EXPECT_EQ(outputs[0].At(0), 20);
  EXPECT_EQ(*first, 10);
}

}  // namespace
}  // namespace rewright
