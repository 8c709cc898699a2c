// Tests indices outside of their axes, on every kind of device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/cuda_device.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr char kGiven[] = R"(
  input table: f32[5,2]
  input ids: i64[3]
  %1 = gather(table, ids)
  output y = %1
)";
constexpr char kComputed[] = R"(
  input table: f32[5,2]
  input ids: i32[3]
  %1 = add(ids, ids)
  %2 = gather(table, %1)
  output y = %2
)";

Tensor Table() { return Tensor::FromVector(DType::kFloat32, {5, 2}, std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}); }

// Expects results for the indices inside and faults for those outside; a fault must not outlast its run.
void ExpectFaults(GraphRunner& runner, const char* text, DType dtype, const std::vector<int64_t>& inside,
                  const std::vector<int64_t>& outside, const std::string& message) {
  const Graph graph = GraphOf(text);
  auto executable = runner.Prepare(graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<Tensor> outputs;
  for (int turn = 0; turn < 2; ++turn) {
    const absl::Status good = (*executable)->Run({Table(), Tensor::FromVector(dtype, {3}, inside)}, &outputs);
    EXPECT_TRUE(good.ok()) << good;
    const absl::Status bad = (*executable)->Run({Table(), Tensor::FromVector(dtype, {3}, outside)}, &outputs);
    EXPECT_TRUE(absl::IsOutOfRange(bad)) << bad;
    EXPECT_THAT(std::string(bad.message()), HasSubstr(message));
  }
}

TEST(IndexFaults, OfInputs) {
  const auto cpu = MakeDevice("cpu", {2});
  ASSERT_TRUE(cpu.ok());
  const auto gpu = cuda::MakeCudaDevice(MakeHostGpu(), *ProfileDb::Open(""), {});
  const std::unique_ptr<GraphRunner> runners[] = {MakeGraphRunner(**cpu), MakeGraphRunner(*gpu),
                                                  MakeReferenceRunner(1)};
  const std::string expected = "of ids i64[3], expected -5 <= index < 5 along axis 0 of f32[5,2]";
  for (const auto& runner : runners) {
    ExpectFaults(*runner, kGiven, DType::kInt64, {-5, 0, 4}, {0, 0, 5}, "index 5 at element 2 " + expected);
    ExpectFaults(*runner, kGiven, DType::kInt64, {-5, 0, 4}, {-6, 0, 5}, "index -6 at element 0 " + expected);
    const int64_t far = int64_t{1} << 62;
    ExpectFaults(*runner, kGiven, DType::kInt64, {1, 2, 3}, {0, far, 0}, "index 4611686018427387904 at element 1 ");
  }
}

TEST(IndexFaults, OfComputedValues) {
  const auto cpu = MakeDevice("cpu", {2});
  ASSERT_TRUE(cpu.ok());
  const std::unique_ptr<GraphRunner> runners[] = {MakeGraphRunner(**cpu), MakeReferenceRunner(1)};
  for (const auto& runner : runners) {
    ExpectFaults(*runner, kComputed, DType::kInt32, {-2, 0, 2}, {0, 3, 0},
                 "index 6 at element 1 of the indices i32[3]");
  }
}

// Nothing is copied, but the wrong index is still an error.
TEST(IndexFaults, OfTablesWithEmptyRows) {
  const Graph graph = GraphOf(R"(
    input table: f32[5,0]
    input ids: i64[3]
    %1 = gather(table, ids)
    output y = %1
  )");
  const auto cpu = MakeDevice("cpu", {2});
  ASSERT_TRUE(cpu.ok());
  auto schedule = (*cpu)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  auto executor = Executor::Create(graph, *std::move(schedule));
  ASSERT_TRUE(executor.ok()) << executor.status();
  const auto run = [&](const std::vector<int64_t>& ids) {
    std::vector<Tensor> outputs;
    const Tensor table(TensorType{DType::kFloat32, {5, 0}});
    return (*executor)->Run({table, Tensor::FromVector(DType::kInt64, {3}, ids)}, &outputs);
  };
  EXPECT_TRUE(run({-5, 0, 4}).ok());
  const absl::Status bad = run({0, 5, 0});
  EXPECT_TRUE(absl::IsOutOfRange(bad)) << bad;
  EXPECT_THAT(std::string(bad.message()), HasSubstr("index 5 at element 1 of ids i64[3], expected -5 <= index < 5"));
  EXPECT_THAT(std::string(bad.message()), HasSubstr("step 0"));
}

// Generated kernels cannot stop a run: docs/cuda.md.
TEST(IndexFaults, GeneratedKernelsWrapWhatTheyCompute) {
  const auto gpu = cuda::MakeCudaDevice(MakeHostGpu(), *ProfileDb::Open(""), {});
  auto executable = MakeGraphRunner(*gpu)->Prepare(GraphOf(kComputed));
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<Tensor> outputs;
  const Tensor ids = Tensor::FromVector(DType::kInt32, {3}, std::vector<int>{3, -4, 1});  // 6, -8, 2
  ASSERT_TRUE((*executable)->Run({Table(), ids}, &outputs).ok());
  const std::vector<double> expected = {2, 3, 4, 5, 4, 5};  // rows 1, 2 and 2
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(outputs[0].At(static_cast<int64_t>(i)), expected[i]);
}

// Values that depend on weights alone are known before a run.
TEST(IndexFaults, OfWeights) {
  auto arena = std::make_shared<Arena>();
  const Value ids = *arena->AddState("ids", Tensor::Int64s({1, 7}));
  const Value table = *arena->AddState("table", Table());
  const Value x = *arena->AddInput("x", {DType::kFloat32, {2, 2}});
  const Value rows{*arena->Add("gather", {table, ids}, {}), 0};
  const Graph graph(arena, {x}, {{Value{*arena->Add("add", {x, rows}, {}), 0}, "y"}});
  const auto cpu = MakeDevice("cpu", {2});
  ASSERT_TRUE(cpu.ok());
  const auto gpu = cuda::MakeCudaDevice(MakeHostGpu(), *ProfileDb::Open(""), {});
  const std::unique_ptr<GraphRunner> runners[] = {MakeGraphRunner(**cpu), MakeGraphRunner(*gpu)};
  for (const auto& runner : runners) {
    const absl::Status status = runner->Prepare(graph).status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("index 7 at element 1 of ids i64[2], expected -5 <= index < 5"));
  }
}

}  // namespace
}  // namespace rewright
