// Graphs on a device with memory of its own, which a processor stands for.
#include "runtime/device_executor.h"

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "core/ir/compare.h"
#include "core/ir/random_inputs.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "runtime/timing.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

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
    // Other inputs each time: nothing is left over from the run before.
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

}  // namespace
}  // namespace rewright
