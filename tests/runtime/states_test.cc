// Tests graphs for training, whose states a run replaces, on every engine.
#include <functional>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "tests/backends/host_gpu_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// A momentum step on a product; two states that exchange their values; a state that is only read, and one only written;
// an output that is a state's value before the step.
constexpr char kStep[] = R"(
training
input x: f32[3,8]
input i: i64[2]
state w: f32[8,5]
state m: f32[8,5]
state a: f32[7]
state b: f32[7]
state table: f32[6,4]
state last: f32[3,5]
const %0: f32[] = [0.9]
const %1: f32[] = [0.1]
%2 = matmul(x, w)
%3 = tanh(%2)
%4 = transpose(x, perm=[1,0])
%5 = matmul(%4, %3)
%6 = mul(m, %0)
%7 = add(%6, %5)
%8 = mul(%7, %1)
%9 = sub(w, %8)
%10 = reduce_sum(%3, axes=[0,1])
%11 = gather(table, i, axis=0)
output loss = %10
output before = w
output rows = %11
update m = %7
update w = %9
update a = b
update b = a
update last = %3
)";

Graph Step() {
  std::map<std::string, Tensor> values;
  const auto draw = [&](const std::string& name, const Shape& shape, double first) {
    Tensor value({DType::kFloat32, shape});
    for (int64_t k = 0; k < value.num_elements(); ++k) value.Set(k, first + 0.03 * static_cast<double>(k));
    values[name] = value;
  };
  draw("w", {8, 5}, -0.5);
  draw("m", {8, 5}, 0.2);
  draw("a", {7}, 1);
  draw("b", {7}, 5);
  draw("table", {6, 4}, 2);
  const auto graph = ParseGraph(kStep, values);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

std::vector<Tensor> Inputs(const Graph& graph, uint64_t seed, int64_t index) {
  std::vector<Tensor> inputs = *RandomInputs(graph, seed);
  inputs[1].SetInt(0, index);
  inputs[1].SetInt(1, 0);
  return inputs;
}

// Next values by chains of pointwise operators, which a device may compute together and write over the old values: of
// states that other chains read, too, also transposed, and of some that are results or take values of others.
std::string RandomStep(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto draw = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  const std::string shape = draw(2) == 0 ? "[3,3]" : "[36,36]";
  std::string text = absl::StrCat("training\ninput x: f32", shape, "\ninput go: bool[]\n");
  std::vector<std::string> values = {"x"}, states;
  for (int i = 0; i < 5; ++i) {
    states.push_back(absl::StrCat("s", i));
    absl::StrAppend(&text, "state ", states.back(), ": f32", shape, "\n");
  }
  values.insert(values.end(), states.begin(), states.end());
  const int count = 4 + static_cast<int>(draw(24));
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("%", i);
    const auto value = [&] { return values[draw(values.size())]; };
    const char* const binary[] = {"add", "sub", "max"};
    absl::StrAppend(&text, name, " = ");
    switch (draw(6)) {
      case 0: absl::StrAppend(&text, "tanh(", value(), ")\n"); break;
      case 1: absl::StrAppend(&text, "where(go, ", value(), ", ", value(), ")\n"); break;
      case 2: absl::StrAppend(&text, "transpose(", value(), ", perm=[1,0])\n"); break;
      default: absl::StrAppend(&text, binary[draw(3)], "(", value(), ", ", value(), ")\n");
    }
    values.push_back(name);
  }
  absl::StrAppend(&text, "output y = ", values[draw(values.size())], "\noutput z = ", values.back(), "\n");
  for (const std::string& state : states) {
    if (draw(6) != 0) absl::StrAppend(&text, "update ", state, " = ", values[draw(values.size())], "\n");
  }
  return text;
}

// Runs the graph several times; each state must equal the interpreter's.
void RunsAsDeclared(const Graph& graph, Executable& executable,
                    const std::function<std::vector<Tensor>(uint64_t)>& inputs_of) {
  absl::flat_hash_map<std::string, Tensor> states;  // as the declarations have it
  for (Value state : graph.states()) states[graph.node(state.node).name] = *graph.arena()->Elements(state.node);
  for (uint64_t run = 0; run < 4; ++run) {
    const std::vector<Tensor> inputs = inputs_of(run);
    absl::flat_hash_map<std::string, Tensor> given = states;
    for (size_t i = 0; i < inputs.size(); ++i) given[graph.node(graph.inputs()[i].node).name] = inputs[i];
    const auto expected = InterpretGraph(graph, given);
    ASSERT_TRUE(expected.ok()) << expected.status();
    std::vector<Tensor> outputs;
    ASSERT_TRUE(executable.Run(inputs, &outputs).ok());
    ASSERT_EQ(outputs.size(), graph.results().size());
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const Output& output = graph.outputs()[i];
      Tensor found;
      if (output.updates.node < 0) {
        found = outputs[i];  // results come first
      } else {
        states[output.name] = (*expected)[i];
        const auto read = executable.ReadState(output.name);
        ASSERT_TRUE(read.ok()) << read.status();
        found = *read;
      }
      const Comparison comparison = Compare(found, (*expected)[i], 1e-5, 1e-5);
      EXPECT_TRUE(comparison.close) << "run " << run << ", " << output.name << ": " << comparison.text;
    }
  }
  for (const auto& [name, value] : states) {
    EXPECT_TRUE(Compare(*executable.ReadState(name), value, 1e-5, 1e-5).close) << name;
    EXPECT_TRUE(executable.ViewState(name)->BitEqual(*executable.ReadState(name))) << name;
  }
}

class StatesTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Executable> Prepare(const Graph& graph) {
    if (GetParam() == "gpu") device_ = cuda::MakeCudaDevice(MakeHostGpu(), *ProfileDb::Open(""), {});
    if (GetParam() == "cpu") device_ = *MakeDevice("cpu");
    runner_ = device_ != nullptr ? MakeGraphRunner(*device_) : MakeReferenceRunner(1);
    auto executable = runner_->Prepare(graph);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<GraphRunner> runner_;
};

TEST_P(StatesTest, TakeTheirNextValues) {
  const Graph graph = Step();
  const auto executable = Prepare(graph);
  RunsAsDeclared(graph, *executable, [&](uint64_t run) { return Inputs(graph, run, 3); });
}

TEST_P(StatesTest, TakeTheValuesOfChainsOfOperators) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text = RandomStep(seed);
    SCOPED_TRACE(text);
    const auto zeros = ParseGraph(text);
    ASSERT_TRUE(zeros.ok()) << zeros.status();
    std::map<std::string, Tensor> values;
    std::mt19937_64 rng(seed);
    for (Value state : zeros->states()) {
      Tensor value(zeros->type(state));
      for (int64_t k = 0; k < value.num_elements(); ++k) value.Set(k, static_cast<double>(rng() % 2000) / 1000 - 1);
      values[zeros->node(state.node).name] = value;
    }
    const auto graph = ParseGraph(text, values);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto executable = Prepare(*graph);
    RunsAsDeclared(*graph, *executable, [&](uint64_t run) { return *RandomInputs(*graph, run); });
    if (HasFailure()) return;
  }
}

TEST_P(StatesTest, StayAsTheyWereWhereARunFails) {
  const Graph graph = Step();
  const auto executable = Prepare(graph);
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executable->Run(Inputs(graph, 1, 2), &outputs).ok());
  std::map<std::string, Tensor> before;
  for (Value state : graph.states()) {
    const std::string& name = graph.node(state.node).name;
    before[name] = *executable->ReadState(name);
  }
  EXPECT_THAT(executable->Run(Inputs(graph, 1, 6), &outputs).message(), HasSubstr("6"));
  for (const auto& [name, value] : before) EXPECT_TRUE(executable->ReadState(name)->BitEqual(value)) << name;
  EXPECT_TRUE(executable->Run(Inputs(graph, 1, 2), &outputs).ok());
}

TEST_P(StatesTest, CanBeSet) {
  const Graph graph = Step();
  const auto executable = Prepare(graph);
  Tensor value({DType::kFloat32, {8, 5}});
  for (int64_t k = 0; k < 40; ++k) value.Set(k, static_cast<double>(k));
  ASSERT_TRUE(executable->WriteState("w", value).ok());
  EXPECT_TRUE(executable->ReadState("w")->BitEqual(value));
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executable->Run(Inputs(graph, 1, 2), &outputs).ok());
  EXPECT_TRUE(outputs[1].BitEqual(value)) << "the state as it was before the step";
  EXPECT_EQ(executable->WriteState("w", Tensor({DType::kFloat32, {40}})).message(),
            "state w: found f32[40], expected f32[8,5]");
  EXPECT_EQ(executable->ReadState("v").status().message(), "no state v, of 6");
}

INSTANTIATE_TEST_SUITE_P(Engines, StatesTest, ::testing::Values("reference", "cpu", "gpu"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rewright
