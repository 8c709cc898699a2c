// The CPU device against the reference interpreter, operator by operator.
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

class EveryOperator : public testing::TestWithParam<std::string> {};

TEST_P(EveryOperator, AgreesWithTheInterpreter) {
  const OpDef& op = *FindOp(GetParam());
  const auto device = MakeDevice("cpu", {2});
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
        operands.push_back(*arena->AddState(name, RandomTensor(sample.inputs[i], sample.low, sample.high, rng)));
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

// NaN lies between other elements: whatever kernel runs, the results have NaN where the interpreter's do. Factors have
// none, since kernels are free in padding times NaN.
TEST_P(EveryOperator, KeepsNaN) {
  const OpDef& op = *FindOp(GetParam());
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(Cases(100)); ++seed) {
    Rng rng(seed);
    const OpSample sample = op.sample(rng);
    auto arena = std::make_shared<Arena>();
    std::vector<Value> operands;
    std::vector<Tensor> elements;
    absl::flat_hash_map<std::string, Tensor> by_name;
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      const std::string name = absl::StrCat("x", i);
      operands.push_back(*arena->AddInput(name, sample.inputs[i]));
      Tensor tensor = RandomTensor(sample.inputs[i], sample.low, sample.high, rng);
      const bool may_be_nan = IsFloating(tensor.dtype()) && (i == 0 || op.broadcasts);
      for (int64_t k = 0; may_be_nan && k < tensor.num_elements(); ++k) {
        if (rng() % 16 == 0) tensor.Set(k, std::nan(""));
      }
      elements.push_back(tensor);
      by_name.emplace(name, tensor);
    }
    const auto id = arena->Add(op, operands, sample.attrs);
    ASSERT_TRUE(id.ok()) << id.status();
    std::vector<Output> outputs;
    for (int k = 0; k < static_cast<int>(arena->node(*id).outputs.size()); ++k) {
      outputs.push_back({Value{*id, k}, absl::StrCat("y", k)});
    }
    const Graph graph(arena, operands, outputs);
    const auto expected = InterpretGraph(graph, by_name);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto executable = MakeGraphRunner(**device)->Prepare(graph);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto found = RunTwice(**executable, elements);
    ASSERT_TRUE(found.ok()) << found.status();
    for (size_t i = 0; i < expected->size(); ++i) {
      for (int64_t k = 0; k < (*expected)[i].num_elements(); ++k) {
        ASSERT_EQ(std::isnan((*found)[i].At(k)), std::isnan((*expected)[i].At(k)))
            << "seed " << seed << ", output " << i << ", element " << k << " of\n"
            << PrintGraph(graph);
      }
    }
  }
}

// Wherever it stands in its window, in the blocked layout of the pool's own kernel.
TEST(CpuPools, TheMaximumOfAWindowWithNaNIsNaN) {
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  const absl::StatusOr<Graph> graph =
      ParseGraph("input x: f32[1,1,3,3]\n%0 = max_pool2d(x, kernel=[2,2])\noutput y = %0\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  for (int64_t at = 0; at < 9; ++at) {
    Tensor x = Tensor::FromVector(DType::kFloat32, {1, 1, 3, 3}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9});
    x.Set(at, std::nan(""));
    const auto y = RunTwice(**executable, {x});
    ASSERT_TRUE(y.ok()) << y.status();
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t row = at / 3 - k / 2, column = at % 3 - k % 2;
      EXPECT_EQ(std::isnan((*y)[0].At(k)), row >= 0 && row < 2 && column >= 0 && column < 2) << at << ", window " << k;
    }
  }
}

// Where C++ leaves open what happens, and processors trap.
TEST(CpuIntegers, AreThoseOfTheInterpreterAtTheEndsOfTheirTypes) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  for (const std::string type : {"i32", "i64"}) {
    for (const std::string op : {"add", "sub", "mul", "div", "rem", "mod", "max", "min"}) {
      const absl::StatusOr<Graph> graph =
          ParseGraph(absl::StrCat("input x: ", type, "[5]\ninput y: ", type, "[5]\n%0 = ", op, "(x, y)\n%1 = neg(%0)\n",
                                  "%2 = abs(%1)\noutput a = %0\noutput b = %2\n"));
      ASSERT_TRUE(graph.ok()) << graph.status();
      std::vector<Tensor> inputs;
      absl::flat_hash_map<std::string, Tensor> by_name;
      const int64_t least = type == "i32" ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
      const std::vector<std::vector<int64_t>> elements = {{least, least, -(least + 1), least + 1, 7},
                                                          {-1, least, -(least + 1), 3, -2}};
      for (size_t i = 0; i < elements.size(); ++i) {
        Tensor tensor(graph->type(graph->inputs()[i]));
        for (size_t k = 0; k < elements[i].size(); ++k) tensor.SetInt(static_cast<int64_t>(k), elements[i][k]);
        by_name[i == 0 ? "x" : "y"] = tensor;
        inputs.push_back(tensor);
      }
      const auto expected = InterpretGraph(*graph, by_name);
      ASSERT_TRUE(expected.ok()) << expected.status();
      const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
      ASSERT_TRUE(executable.ok()) << executable.status();
      const auto actual = RunTwice(**executable, inputs);
      ASSERT_TRUE(actual.ok()) << actual.status();
      for (size_t i = 0; i < expected->size(); ++i) EXPECT_TRUE((*actual)[i].BitEqual((*expected)[i])) << type << op;
    }
  }
}

// Rounding by adding and subtracting, and casts by instructions that know 32 bits: at the numbers where they need care,
// one in a tile of others, and in tiles that have none of those.
TEST(CpuReals, RoundAndBecomeIntegersAsInTheInterpreter) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  std::vector<double> numbers = {
      0.0,         -0.0,        0.5,        -0.5,    1.5,       2.5,     -2.5,     0.49999997, -0.3,        127,
      255,         256,         -129,       65535.5, 8388607.5, 8388608, -8388609, 16777217,   2147483520,  2147483648,
      -2147483648, -2147483904, 4294967296, 1e18,    1e20,      -1e20,   HUGE_VAL, -HUGE_VAL,  std::nan("")};
  for (const std::string type : {"f32", "f64", "f16", "bf16"}) {
    std::string text = absl::StrCat("input x: ", type, "[700]\n%0 = round(x)\noutput r = %0\n");
    int node = 1;
    for (const char* to : {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
      absl::StrAppend(&text, "%", node, " = cast(x, to=", to, ")\noutput ", to, " = %", node, "\n");
      ++node;
    }
    const absl::StatusOr<Graph> graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
    ASSERT_TRUE(executable.ok()) << executable.status();
    for (double number : numbers) {
      Tensor x(graph->type(graph->inputs()[0]));
      for (int64_t i = 0; i < x.num_elements(); ++i) x.Set(i, (static_cast<double>(i) - 350) / 4);
      x.Set(300, number);
      x.Set(0, number);
      const auto expected = InterpretGraph(*graph, {{"x", x}});
      ASSERT_TRUE(expected.ok()) << expected.status();
      const auto actual = RunTwice(**executable, {x});
      ASSERT_TRUE(actual.ok()) << actual.status();
      for (size_t i = 0; i < expected->size(); ++i) {
        EXPECT_TRUE(std::isnan(number) && i == 0 ? std::isnan((*actual)[i].At(300))
                                                 : (*actual)[i].BitEqual((*expected)[i]))
            << type << " " << number << " output " << graph->outputs()[i].name << ": " << (*actual)[i].At(300)
            << ", expected " << (*expected)[i].At(300);
      }
    }
  }
}

// Alone, in a pointwise group, and in what the interpreter runs for the device: the element is -1, its neighbours are
// what they are, and what is computed of it is a number, or a bool that is 0 or 1.
TEST(CpuIntegers, AnElementWithoutAValueIsMinusOne) {
  const auto device = MakeDevice("cpu", {2});
  const absl::StatusOr<Graph> graph = ParseGraph(R"(
input x: i64[2,3]
input y: i64[2,3]
%0 = div(x, y)
%2 = less(%0, x)
%3 = reduce_sum(%0, axes=[1])
output a = %0
output b = %2
output c = %3
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const Tensor x = Tensor::FromVector(DType::kInt64, {2, 3}, std::vector<int>{7, 8, 9, 10, 11, -12});
  const Tensor y = Tensor::FromVector(DType::kInt64, {2, 3}, std::vector<int>{0, 3, 9, 5, 0, 2});
  const auto outputs = RunTwice(**executable, {x, y});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const std::vector<std::vector<int64_t>> expected = {{-1, 2, 1, 2, -1, -6}, {1, 1, 1, 1, 1, 0}, {2, -5}};
  for (size_t k = 0; k < expected.size(); ++k) {
    for (size_t i = 0; i < expected[k].size(); ++i) {
      EXPECT_EQ((*outputs)[k].AtInt(static_cast<int64_t>(i)), expected[k][i]) << "output " << k << ", element " << i;
    }
  }
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const OpDef* op : AllOps()) names.push_back(op->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOperator, testing::ValuesIn(AllNames()),
                         [](const auto& info) { return info.param; });

// A power with the exponent 2 is the product, bit for bit, as a file that says Pow is timed.
TEST(CpuPointwise, SquaresAreProducts) {
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {1003}});
  const Value two = arena->AddConstant(Tensor::Scalar(DType::kFloat32, 2));
  const Graph graph(arena, {x}, {{*arena->Apply("pow", {x, two}), "y"}, {*arena->Apply("mul", {x, x}), "z"}});
  auto schedule = (*device)->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  const auto executor = Executor::Create(graph, *std::move(schedule));
  ASSERT_TRUE(executor.ok()) << executor.status();
  Rng rng(1);
  Tensor input(TensorType{DType::kFloat32, {1003}});
  for (int64_t i = 0; i < 1003; ++i) input.as<float>()[i] = std::bit_cast<float>(static_cast<uint32_t>(rng()));
  std::vector<Tensor> outputs;
  ASSERT_TRUE((*executor)->Run({input}, &outputs).ok());
  EXPECT_TRUE(outputs[0].BitEqual(outputs[1]));
}

// Also by powers of two, which are products to the device.
TEST(CpuPointwise, QuotientsAreRoundedOnce) {
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const float divisor : {8.0f, -0.5f, 3.0f, 10.0f, 0.044715f, 0x1p59f, 0x1p-59f, 0x1p100f, 0.0f}) {
    auto arena = std::make_shared<Arena>();
    const Value x = *arena->AddInput("x", {DType::kFloat32, {1003}});
    const Value by = arena->AddConstant(Tensor::FromVector(DType::kFloat32, {}, std::vector<float>{divisor}));
    const Graph graph(arena, {x}, {{Value{*arena->Add("div", {x, by}, {}), 0}, "y"}});
    auto schedule = (*device)->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const auto executor = Executor::Create(graph, *std::move(schedule));
    ASSERT_TRUE(executor.ok()) << executor.status();
    Rng rng(1);
    Tensor input(TensorType{DType::kFloat32, {1003}});
    for (int64_t i = 0; i < 1003; ++i) input.as<float>()[i] = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    std::vector<Tensor> outputs;
    ASSERT_TRUE((*executor)->Run({input}, &outputs).ok());
    for (int64_t i = 0; i < 1003; ++i) {
      const float expected = input.as<float>()[i] / divisor, found = outputs[0].as<float>()[i];
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(found)
                                       : std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(found))
          << input.as<float>()[i] << " / " << divisor << " is " << expected << ", found " << found;
    }
  }
}

}  // namespace
}  // namespace rewright
