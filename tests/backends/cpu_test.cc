// The CPU device against the reference interpreter, operator by operator.
#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu_runner_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

class EveryOperator : public testing::TestWithParam<std::string> {};

TEST_P(EveryOperator, AgreesWithTheInterpreter) {
  const OpDef& op = *FindOp(GetParam());
  const auto device = MakeDevice("cpu", {2, ""});
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(Cases(400)); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed);
    const OpSample sample = op.sample(rng);
    // Operands as inputs, and, every other time, all but the first as weights.
    auto arena = std::make_shared<Arena>();
    std::vector<Value> inputs, operands;
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      const std::string name = absl::StrCat("x", i);
      if (i > 0 && seed % 2 == 1) {
        operands.push_back(*arena->AddWeight(name, RandomTensor(sample.inputs[i], sample.low, sample.high, rng)));
      } else {
        operands.push_back(*arena->AddInput(name, sample.inputs[i]));
        inputs.push_back(operands.back());
      }
    }
    const auto id = arena->Add(op, operands, sample.attrs);
    ASSERT_TRUE(id.ok()) << id.status().ToString();
    std::vector<Output> outputs;
    for (int k = 0; k < static_cast<int>(arena->node(*id).outputs.size()); ++k) {
      outputs.push_back({Value{*id, k}, absl::StrCat("y", k)});
    }
    const Graph graph(arena, inputs, outputs);
    SCOPED_TRACE(PrintGraph(graph));
    ExpectAgrees(**device, graph, sample.low, sample.high, seed);
    if (HasFailure()) return;
  }
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const OpDef* op : AllOps()) names.push_back(op->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOperator, testing::ValuesIn(AllNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rewright
