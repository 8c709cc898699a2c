// The CUDA device on a processor that stands for the GPU: what it fuses, lowers and generates against the reference
// interpreter.
#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "core/text.h"
#include "gtest/gtest.h"
#include "tests/backends/cpu_runner_util.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

std::unique_ptr<Device> HostDevice(HostGpuCounts* counts = nullptr) {
  cuda::CudaOptions options;
  options.min_vectorized = 8;
  auto profile = ProfileDb::Open("");
  EXPECT_TRUE(profile.ok());
  return cuda::MakeCudaDevice(MakeHostGpu(counts), *std::move(profile), options);
}

struct Case {
  std::string name;
  Graph graph;
  Schedule schedule;
  double low = -2, high = 2;
};

// Kernels of all cases are compiled together at the first run.
void ExpectAllAgree(Device& device, std::vector<Case> cases) {
  for (Case& c : cases) {
    auto schedule = device.Compile(c.graph);
    ASSERT_TRUE(schedule.ok()) << c.name << ": " << schedule.status().ToString();
    c.schedule = *std::move(schedule);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(absl::StrCat(cases[i].name, "\n", PrintGraph(cases[i].graph)));
    ExpectAgrees(cases[i].schedule, cases[i].graph, cases[i].low, cases[i].high, i);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Cuda, EveryOperatorAgreesWithTheInterpreter) {
  HostGpuCounts counts;
  const auto device = HostDevice(&counts);
  std::vector<Case> cases;
  Rng rng(7);
  for (const OpDef* op : AllOps()) {
    for (int i = 0; i < Cases(60); ++i) {
      const OpSample sample = op->sample(rng);
      auto arena = std::make_shared<Arena>();
      std::vector<Value> operands;
      for (size_t k = 0; k < sample.inputs.size(); ++k) {
        operands.push_back(*arena->AddInput(absl::StrCat("x", k), sample.inputs[k]));
      }
      const auto node = arena->Add(*op, operands, sample.attrs);
      ASSERT_TRUE(node.ok()) << op->name << ": " << node.status().ToString();
      std::vector<Output> outputs;
      for (int k = 0; k < static_cast<int>(arena->node(*node).outputs.size()); ++k) {
        outputs.push_back({Value{*node, k}, absl::StrCat("y", k)});
      }
      cases.push_back({absl::StrCat(op->name, " ", i), Graph(arena, operands, outputs), {}, sample.low, sample.high});
    }
  }
  ExpectAllAgree(*device, std::move(cases));
  EXPECT_GT(counts.kernels, static_cast<int>(AllOps().size()));
  EXPECT_GT(counts.calls, 0);
}

void ExpectRandomGraphsAgree(Graph (*grow)(uint64_t, int)) {
  const auto device = HostDevice();
  std::vector<Case> cases;
  for (int seed = 0; seed < Cases(400); ++seed) {
    cases.push_back({absl::StrCat("seed ", seed), grow(static_cast<uint64_t>(seed), 4 + seed % 17), {}, -1, 1});
  }
  ExpectAllAgree(*device, std::move(cases));
}

TEST(Cuda, RandomImageGraphsAgreeWithTheInterpreter) { ExpectRandomGraphsAgree(RandomImageGraph); }
TEST(Cuda, RandomMatrixGraphsAgreeWithTheInterpreter) { ExpectRandomGraphsAgree(RandomMatrixGraph); }

}  // namespace
}  // namespace rewright
