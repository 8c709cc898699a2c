// Tests that a step that fails ends its run and nothing else.
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "backends/device_factory.h"
#include "core/ir/random_tensors.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/runtime/allocation_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] = R"(
input x: f32[1,8,10,10]
state w: f32[8,8,3,3]
state d: f32[8,5]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = relu(%1)
%3 = reduce_mean(%2, axes=[2,3])
%7 = reshape(%3, shape=[1,8])
%4 = matmul(%7, d)
%5 = softmax(%4)
%6 = argmax(%5, axis=1)
output y = %5
output k = %6
)";

// A kernel that fails on request.
class Injected : public Kernel {
 public:
  Injected(std::unique_ptr<Kernel> kernel, const absl::Status& fault) : kernel_(std::move(kernel)), fault_(fault) {}
  absl::StatusOr<std::unique_ptr<KernelHandles>> MakeHandles() const override { return kernel_->MakeHandles(); }
  absl::Status Run(void* const* buffers, RunContext& context) const override {
    return fault_.ok() ? kernel_->Run(buffers, context) : fault_;
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const absl::Status& fault_;
};

// Every step of a model fails in turn: the run ends with the step's error, and the next run is correct.
void ExpectFaultsPass(Device& device) {
  const Graph graph = GraphWithWeights(kModel, -1, 1, 1);
  const std::vector<Tensor> inputs = *RandomInputs(graph, 1);
  auto schedule = device.Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::vector<absl::Status> faults(schedule->steps.size());
  ASSERT_GE(faults.size(), 4u);
  std::vector<std::string> labels;
  for (size_t s = 0; s < faults.size(); ++s) {
    Step& step = schedule->steps[s];
    step.kernel = std::make_unique<Injected>(std::move(step.kernel), faults[s]);
    labels.push_back(step.label);
  }
  DeviceMemory& memory = device.memory() != nullptr ? *device.memory() : HostMemory();
  const auto executor = Executor::Create(graph, *std::move(schedule), memory);
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::vector<Tensor> expected, outputs;
  ASSERT_TRUE((*executor)->Run(inputs, &expected).ok());
  for (size_t s = 0; s < faults.size(); ++s) {
    faults[s] = absl::ResourceExhaustedError("the library ran out of memory");
    const absl::Status status = (*executor)->Run(inputs, &outputs);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_EQ(status.message(), absl::StrCat("step ", s, " (", labels[s], "): the library ran out of memory"));
    faults[s] = absl::OkStatus();
    ASSERT_TRUE((*executor)->Run(inputs, &outputs).ok());
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(outputs[i].BitEqual(expected[i]));
  }
}

TEST(Faults, OfAnyStepEndTheRunAlone) {
  const auto cpu = MakeDevice("cpu", {2});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  ExpectFaultsPass(**cpu);
  const auto gpu = cuda::MakeCudaDevice(MakeHostGpu(), *ProfileDb::Open(""), {});
  ExpectFaultsPass(*gpu);
}

// Allocation number i of a run fails, for all i: no run crashes, and the run after all of them is correct. (The kernels
// are this program's: oneDNN allocates within its parallel regions, where an exception ends the process.)
TEST(Faults, OfAllocationsEndTheRunAlone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers bring their own allocator";
#endif
  const Graph graph = GraphWithWeights(R"(
input x: f32[6,8]
state d: f32[8,5]
%1 = matmul(x, d)
%2 = softmax(%1)
%3 = reduce_prod(%2, axes=[1])
%4 = transpose(%2, perm=[1,0])
%5 = reduce_mean(%4, axes=[0])
output y = %5
output k = %3
)",
                                       -1, 1, 1);
  const std::vector<Tensor> inputs = *RandomInputs(graph, 1);
  const auto cpu = MakeDevice("cpu", {2});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const auto gpu = cuda::MakeCudaDevice(MakeHostGpu(), *ProfileDb::Open(""), {});
  const std::unique_ptr<GraphRunner> runners[] = {MakeGraphRunner(**cpu), MakeGraphRunner(*gpu)};
  for (const auto& runner : runners) {
    const auto executable = runner->Prepare(graph);
    ASSERT_TRUE(executable.ok()) << executable.status();
    std::vector<Tensor> expected;
    ASSERT_TRUE((*executable)->Run(inputs, &expected).ok());
    int failed = 0;
    bool ended = false;
    for (int64_t count = 0; count < 10000 && !ended; ++count) {
      std::vector<Tensor> outputs = expected;
      for (Tensor& output : outputs) output = Tensor(output.type());
      const int64_t before = NumAllocations();
      FailOnce(count);
      const absl::Status status = (*executable)->Run(inputs, &outputs);
      FailOnce(-1);
      ended = NumAllocations() - before <= count;
      if (!status.ok()) {
        ++failed;
        EXPECT_TRUE(absl::IsResourceExhausted(status) || absl::IsInternal(status)) << status;
      }
      outputs.clear();
      ASSERT_TRUE((*executable)->Run(inputs, &outputs).ok());
      for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(outputs[i].BitEqual(expected[i])) << count;
    }
    EXPECT_TRUE(ended);
    EXPECT_GT(failed, 0);
  }
}

// A GPU refuses a launch, at its first run and in the middle of later ones.
TEST(Faults, OfAGpuNameTheStep) {
  const Graph graph = GraphWithWeights(kModel, -1, 1, 1);
  HostGpuCounts counts;
  const auto known = cuda::MakeCudaDevice(MakeHostGpu(&counts), *ProfileDb::Open(""), {});
  const std::vector<Tensor> inputs = *RandomInputs(graph, 1);
  std::vector<Tensor> expected, outputs;
  const auto executable = MakeGraphRunner(*known)->Prepare(graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const int prepared = counts.launches;
  ASSERT_TRUE((*executable)->Run(inputs, &expected).ok());
  const int launches = counts.launches - prepared;
  ASSERT_GT(launches, 0);
  for (int at = 0; at < launches; ++at) {
    HostGpuCounts other_counts;
    const auto gpu =
        cuda::MakeCudaDevice(MakeHostGpu(&other_counts, {.fault_at = prepared + at}), *ProfileDb::Open(""), {});
    const auto other = MakeGraphRunner(*gpu)->Prepare(graph);
    ASSERT_TRUE(other.ok()) << other.status();
    const absl::Status status = (*other)->Run(inputs, &outputs);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::MatchesRegex("step [0-9]+ \\(.+\\): cuda: a launch was refused"));
    ASSERT_TRUE((*other)->Run(inputs, &outputs).ok());
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(outputs[i].BitEqual(expected[i]));
  }
}

}  // namespace
}  // namespace rewright
