// Compares gradients and tangents of graphs with differences, with each other, and with known graphs.
#include "core/autodiff/autodiff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/adjoint/derivative_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using Inputs = absl::flat_hash_map<std::string, Tensor>;

const InterpretOptions kDouble = {.precision = Precision::kFloat64};

std::vector<Tensor> RunAll(const std::shared_ptr<Arena>& arena, const std::vector<Value>& inputs,
                           const std::vector<Value>& values, const Inputs& tensors) {
  std::vector<Output> outputs;
  for (Value value : values) outputs.push_back({value, absl::StrCat("y", outputs.size())});
  auto results = InterpretGraph(Graph(arena, inputs, std::move(outputs)), tensors, kDouble);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *std::move(results) : std::vector<Tensor>();
}

// ---------------------------------------------------------------- known graphs

struct Parsed {
  Graph graph;
  Arena& arena() const { return *graph.arena(); }
  Value output(size_t i = 0) const { return graph.outputs()[i].value; }
};

Parsed Parse(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return {*std::move(graph)};
}

std::string GradientText(const Parsed& parsed, const std::vector<Value>& by) {
  auto gradients = Gradients(parsed.arena(), parsed.output(), by);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  if (!gradients.ok()) return "";
  std::vector<Output> outputs;
  for (Value value : *gradients) outputs.push_back({value, absl::StrCat("g", outputs.size())});
  return PrintGraph(Graph(parsed.graph.arena(), parsed.graph.inputs(), std::move(outputs)));
}

TEST(Gradients, OfADenseLayer) {
  const Parsed parsed = Parse(
      "input x: f32[2,3]\ninput w: f32[3,4]\ninput b: f32[4]\n%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = relu(%1)\n"
      "%3 = reduce_sum(%2, axes=[0,1], keepdims=0)\noutput loss = %3\n");
  const std::string text = GradientText(parsed, parsed.graph.inputs());
  EXPECT_THAT(text, HasSubstr("reduce_sum_grad_x("));
  EXPECT_THAT(text, HasSubstr("matmul_grad_a(w, "));
  EXPECT_THAT(text, HasSubstr("expand_grad_x("));  // the bias is expanded over the rows
  // A copy of the cotangent is the cotangent.
  EXPECT_THAT(text, testing::Not(HasSubstr("add_grad")));
  // The text parses back: derived operators are operators.
  auto again = ParseGraph(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(PrintGraph(*again), text);
}

// Each of so many parts is found by a few steps: the gradients are as many slices.
TEST(Gradients, OfThousandsOfParts) {
  constexpr size_t kParts = 5000;
  const auto arena = std::make_shared<Arena>();
  std::vector<Value> parts;
  for (size_t k = 0; k < kParts; ++k) {
    parts.push_back(*arena->AddInput(absl::StrCat("x", k), TensorType{DType::kFloat64, {1}}));
  }
  const auto joined = arena->Apply("concat", parts, {{"axis", int64_t{0}}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  const auto sum = arena->Apply("reduce_sum", {*joined}, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}});
  ASSERT_TRUE(sum.ok()) << sum.status();
  const auto gradients = Gradients(*arena, *sum, parts);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (const Value gradient : *gradients) ASSERT_EQ(arena->node(gradient.node).op->name, "slice");
}

// The concatenation has more parts than any sample of its operator.
TEST(Gradients, OfManyPartsAreTheirParts) {
  std::string text = "input x: f64[2,3]\n", names = "x";
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&text, "%", i, " = mul(", i == 0 ? "x" : absl::StrCat("%", i - 1), ", x)\n");
    absl::StrAppend(&names, ", %", i);
  }
  absl::StrAppend(&text, "%8 = concat(", names, ", axis=1)\n%9 = mul(%8, %8)\n",
                  "%10.0, %10.1, %10.2, %10.3, %10.4, %10.5, %10.6 = split(%9, axis=1, sizes=[3,3,3,3,3,3,9])\n",
                  "%11 = mul(%10.0, %10.5)\n%12 = reduce_sum(%11, axes=[0,1], keepdims=0)\noutput y = %12\n");
  const Parsed parsed = Parse(text);
  const std::string gradients = GradientText(parsed, {parsed.graph.inputs()[0]});
  EXPECT_THAT(gradients, HasSubstr("slice("));
  EXPECT_THAT(gradients, ::testing::Not(HasSubstr("concat_grad_")));
  EXPECT_THAT(gradients, ::testing::Not(HasSubstr("split_grad_")));
  // y = sum of x^2 x^12
  const auto by_x = Gradients(parsed.arena(), parsed.output(), {parsed.graph.inputs()[0]});
  ASSERT_TRUE(by_x.ok()) << by_x.status();
  const Tensor x = Tensor::FromVector<double>(DType::kFloat64, {2, 3}, {0.5, -1, 1.5, 1, 2, -0.25});
  const Tensor g = RunAll(parsed.graph.arena(), parsed.graph.inputs(), *by_x, {{"x", x}})[0];
  for (int64_t i = 0; i < 6; ++i) {
    const double expected = 14 * std::pow(x.At(i), 13);
    EXPECT_NEAR(g.At(i), expected, 1e-9 * std::max(1.0, std::abs(expected)));
  }
}

TEST(Gradients, AreSummedWhereAValueIsReadTwice) {
  const Parsed parsed = Parse("input x: f64[]\n%0 = mul(x, x)\n%1 = mul(%0, x)\noutput y = %1\n");
  const std::vector<Value> by = parsed.graph.inputs();
  const auto first = Gradients(parsed.arena(), parsed.output(), by);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Gradients(parsed.arena(), (*first)[0], by);
  ASSERT_TRUE(second.ok()) << second.status();
  const auto third = Gradients(parsed.arena(), (*second)[0], by);
  ASSERT_TRUE(third.ok()) << third.status();
  const std::vector<Tensor> values = RunAll(parsed.graph.arena(), by, {(*first)[0], (*second)[0], (*third)[0]},
                                            {{"x", Tensor::Scalar(DType::kFloat64, 5)}});
  EXPECT_DOUBLE_EQ(values.at(0).At(0), 75);
  EXPECT_DOUBLE_EQ(values.at(1).At(0), 30);
  EXPECT_DOUBLE_EQ(values.at(2).At(0), 6);
}

TEST(Gradients, ByIntermediateValuesAndByWhatIsNotRead) {
  const Parsed parsed = Parse(
      "input x: f64[2]\ninput z: f64[3]\n%0 = exp(x)\n%1 = mul(%0, %0)\n%2 = reduce_sum(%1, axes=[0], keepdims=0)\n"
      "output a = %2\noutput b = %0\n");
  const auto found = Gradients(parsed.arena(), parsed.output(0), {parsed.output(1), parsed.graph.inputs()[1]});
  ASSERT_TRUE(found.ok()) << found.status();
  const std::vector<Tensor> values =
      RunAll(parsed.graph.arena(), parsed.graph.inputs(), *found,
             {{"x", Tensor::FromVector<double>(DType::kFloat64, {2}, {0, 1})}, {"z", Tensor({DType::kFloat64, {3}})}});
  EXPECT_DOUBLE_EQ(values.at(0).At(0), 2);
  EXPECT_NEAR(values.at(0).At(1), 2 * std::exp(1.0), 1e-12);
  EXPECT_EQ(values.at(1).shape(), Shape{3});
  EXPECT_EQ(values.at(1).At(2), 0);
}

// As in PyTorch: 0 if the base is 0 and the exponent is 0 or more, and NaN if the exponent is NaN.
TEST(Gradients, OfAPowerByItsExponentKeepsNaN) {
  const Parsed parsed = Parse("input a: f64[4]\ninput b: f64[4]\n%0 = pow(a, b)\noutput y = %0\n");
  const Value ones = *parsed.arena().Apply("expand", {parsed.arena().AddConstant(Tensor::Scalar(DType::kFloat64, 1))},
                                           {{"shape", Shape{4}}});
  const auto by_b = PullBack(parsed.arena(), {parsed.output()}, {ones}, {parsed.graph.inputs()[1]});
  ASSERT_TRUE(by_b.ok()) << by_b.status();
  const double nan = std::nan("");
  const Tensor g = RunAll(parsed.graph.arena(), parsed.graph.inputs(), *by_b,
                          {{"a", Tensor::FromVector<double>(DType::kFloat64, {4}, {0, 0, 0, nan})},
                           {"b", Tensor::FromVector<double>(DType::kFloat64, {4}, {0, 2, nan, 2})}})[0];
  EXPECT_EQ(g.At(0), 0);
  EXPECT_EQ(g.At(1), 0);
  EXPECT_TRUE(std::isnan(g.At(2)));
  EXPECT_TRUE(std::isnan(g.At(3)));
}

TEST(Gradients, StopAtIntegersAndSteps) {
  const Parsed parsed = Parse(
      "input x: f64[3]\n%0 = argmax(x, axis=0, keepdims=0)\n%1 = cast(%0, to=f64)\n%2 = floor(x)\n"
      "%3 = reduce_sum(%2, axes=[0], keepdims=0)\n%4 = add(%1, %3)\noutput y = %4\n");
  const auto found = Gradients(parsed.arena(), parsed.output(), parsed.graph.inputs());
  ASSERT_TRUE(found.ok()) << found.status();
  const std::vector<Tensor> values = RunAll(parsed.graph.arena(), parsed.graph.inputs(), *found,
                                            {{"x", Tensor::FromVector<double>(DType::kFloat64, {3}, {1, 2, 3})}});
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(values.at(0).At(i), 0);
}

TEST(Gradients, RefuseWhatHasNone) {
  const Parsed parsed = Parse("input x: f32[3]\ninput k: i64[3]\n%0 = exp(x)\noutput y = %0\n");
  const std::vector<Value> inputs = parsed.graph.inputs();
  EXPECT_THAT(Gradients(parsed.arena(), parsed.output(), inputs).status().message(),
              HasSubstr("the loss is of type f32[3], expected one number"));
  EXPECT_THAT(PullBack(parsed.arena(), {parsed.output()}, {inputs[0]}, {inputs[1]}).status().message(),
              HasSubstr("i64[3]: only floating-point numbers have derivatives"));
  EXPECT_THAT(PullBack(parsed.arena(), {parsed.output()}, {inputs[1]}, {inputs[0]}).status().message(),
              HasSubstr("a cotangent of type i64[3], expected that of its value, f32[3]"));
}

TEST(PushForward, OfAProduct) {
  const Parsed parsed = Parse("input x: f64[2]\ninput y: f64[2]\ninput dx: f64[2]\n%0 = mul(x, y)\noutput z = %0\n");
  const std::vector<Value>& in = parsed.graph.inputs();
  const auto tangents = PushForward(parsed.arena(), {parsed.output(), in[1]}, {{in[0], in[2]}});
  ASSERT_TRUE(tangents.ok()) << tangents.status();
  const auto vector = [](double a, double b) { return Tensor::FromVector<double>(DType::kFloat64, {2}, {a, b}); };
  const std::vector<Tensor> values =
      RunAll(parsed.graph.arena(), in, *tangents, {{"x", vector(2, 3)}, {"y", vector(5, 7)}, {"dx", vector(1, 10)}});
  EXPECT_DOUBLE_EQ(values.at(0).At(0), 5);
  EXPECT_DOUBLE_EQ(values.at(0).At(1), 70);
  EXPECT_EQ(values.at(1).At(0), 0);
}

// ---------------------------------------------------------------- random graphs

// A graph of random applications with random operands; later ones read earlier ones if types agree.
struct Grown {
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::vector<Value> inputs, values;  // declared inputs; results without a reader
  std::vector<Value> moving;          // the inputs of floating types
  Inputs tensors;

  Value NewInput(const Tensor& tensor) {
    const std::string name = absl::StrCat("x", inputs.size());
    const auto input = arena->AddInput(name, tensor.type());
    EXPECT_TRUE(input.ok()) << input.status();
    inputs.push_back(*input);
    auto stored = ToPrecision(tensor, Precision::kFloat64);
    EXPECT_TRUE(stored.ok());
    tensors[name] = *stored;
    return *input;
  }
};

Grown Grow(uint64_t seed, int operators) {
  Rng rng(seed);
  Grown grown;
  std::vector<Value> made;
  absl::flat_hash_set<Value> read;
  const std::vector<const OpDef*>& ops = AllOps();
  for (int i = 0; i < operators; ++i) {
    const OpDef& op = *ops[(seed + static_cast<uint64_t>(i) * 7) % ops.size()];
    const OpSample sample = op.sample(rng);
    const bool any_value = sample.low == OpSample().low && sample.high == OpSample().high;
    std::vector<Value> operands;
    for (const TensorType& type : sample.inputs) {
      std::optional<Value> value;
      for (size_t k = made.size(); any_value && k-- > 0 && !value;) {
        const TensorType& found = grown.arena->type(made[k]);
        if (found.dtype != type.dtype || found.num_elements() != type.num_elements() || rng() % 4 == 0) continue;
        value = made[k];
        if (found.shape == type.shape) continue;
        const auto reshaped = grown.arena->Apply("reshape", {made[k]}, {{"shape", type.shape}});
        value = reshaped.ok() ? std::optional<Value>(*reshaped) : std::nullopt;
        if (value) read.insert(made[k]);
      }
      if (!value) {
        value = grown.NewInput(RandomTensor(type, rng, sample.low, sample.high));
        if (IsFloating(type.dtype)) grown.moving.push_back(*value);
      }
      operands.push_back(*value);
      read.insert(*value);
    }
    const auto node = grown.arena->Add(op, operands, sample.attrs);
    EXPECT_TRUE(node.ok()) << node.status();
    if (grown.arena->node(*node).meaning->IsOpaque()) continue;  // has no derivatives
    const int32_t outputs = static_cast<int32_t>(grown.arena->node(*node).outputs.size());
    for (int32_t o = 0; o < outputs; ++o) made.push_back({*node, o});
  }
  for (Value value : made) {
    if (!read.contains(value) && IsFloating(grown.arena->type(value).dtype)) grown.values.push_back(value);
  }
  return grown;
}

// Outcome of the check of a random graph.
enum class Outcome { kChecked, kKink };

double Objective(const Grown& grown, const std::vector<Tensor>& cotangents, const Inputs& tensors) {
  const std::vector<Tensor> outputs = RunAll(grown.arena, grown.inputs, grown.values, tensors);
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) sum += Dot(outputs[i], cotangents[i]);
  return sum;
}

// Differentiates <u, f> along a random direction of all inputs: by differences, in reverse and in forward mode.
Outcome CheckGraph(Grown grown, uint64_t seed, double tolerance) {
  constexpr double kStep = 1e-6;
  Rng rng(seed);
  std::vector<Value> cotangents, directions;
  std::vector<Tensor> cotangent_tensors;
  std::vector<std::pair<Value, Value>> along;
  Inputs above = grown.tensors, below = grown.tensors;
  const size_t primal_inputs = grown.inputs.size();
  const Grown primal = grown;
  for (Value value : grown.values) {
    cotangents.push_back(grown.NewInput(RandomTensor(grown.arena->type(value), rng, -1, 1)));
    cotangent_tensors.push_back(grown.tensors.at(grown.arena->node(cotangents.back().node).name));
  }
  std::vector<Tensor> direction_tensors;
  for (Value input : grown.moving) {
    const Value direction = grown.NewInput(RandomTensor(grown.arena->type(input), rng, -1, 1));
    along.emplace_back(input, direction);
    const Tensor d = grown.tensors.at(grown.arena->node(direction.node).name);
    direction_tensors.push_back(d);
    const std::string& name = grown.arena->node(input.node).name;
    for (auto [moved, step] : {std::pair(&above, kStep), std::pair(&below, -kStep)}) {
      Tensor x(d.type());
      for (int64_t i = 0; i < d.num_elements(); ++i) x.Set(i, grown.tensors.at(name).At(i) + step * d.At(i));
      (*moved)[name] = x;
    }
  }
  EXPECT_EQ(primal.inputs.size(), primal_inputs);
  const auto gradients = PullBack(*grown.arena, grown.values, cotangents, grown.moving);
  const auto tangents = PushForward(*grown.arena, grown.values, along);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_TRUE(tangents.ok()) << tangents.status();
  if (!gradients.ok() || !tangents.ok()) return Outcome::kChecked;
  const std::vector<Tensor> pulled = RunAll(grown.arena, grown.inputs, *gradients, grown.tensors);
  const std::vector<Tensor> pushed = RunAll(grown.arena, grown.inputs, *tangents, grown.tensors);
  double reverse = 0, forward = 0, scale = 1;
  for (size_t i = 0; i < pulled.size(); ++i) {
    reverse += Dot(pulled[i], direction_tensors[i]);
    for (int64_t k = 0; k < pulled[i].num_elements(); ++k) {
      scale += std::fabs(pulled[i].At(k) * direction_tensors[i].At(k));
    }
  }
  for (size_t i = 0; i < pushed.size(); ++i) forward += Dot(pushed[i], cotangent_tensors[i]);
  const double here = Objective(primal, cotangent_tensors, grown.tensors);
  const double up = Objective(primal, cotangent_tensors, above);
  const double down = Objective(primal, cotangent_tensors, below);
  // Values have diverged, or there is a kink between the two points.
  if (!std::isfinite(up - down) || !std::isfinite(scale) || scale > 1e6 || std::fabs(here) > 1e8 ||
      std::fabs(up - 2 * here + down) / kStep > 1e-3 * scale) {
    return Outcome::kKink;
  }
  const double rounding = (std::fabs(up) + std::fabs(down) + scale) * 1e-14 / kStep;
  EXPECT_NEAR(reverse, forward, 1e-9 * scale);
  EXPECT_LT(std::max(0.0, std::fabs((up - down) / (2 * kStep) - reverse) - rounding) / scale, tolerance);
  return Outcome::kChecked;
}

TEST(RandomGraphGradients, AreWhatDifferencesSay) {
  const int graphs = Cases(300);
  int checked = 0, drawn = 0;
  for (; checked < graphs && drawn < 2 * graphs; ++drawn) {
    const uint64_t seed = 1000 + static_cast<uint64_t>(drawn);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    checked += CheckGraph(Grow(seed, 1 + drawn % 30), seed, 1e-6) == Outcome::kChecked;
    if (HasFailure()) return;
  }
  EXPECT_EQ(checked, graphs) << "of " << drawn;
  RecordProperty("drawn", drawn);
}

// Gradients of <u, gradients of a graph>.
TEST(RandomGraphGradients, OfGradients) {
  const int graphs = Cases(60);
  int checked = 0, drawn = 0;
  for (; checked < graphs && drawn < 3 * graphs; ++drawn) {
    const uint64_t seed = 5000 + static_cast<uint64_t>(drawn);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Grown grown = Grow(seed, 1 + drawn % 8);
    Rng rng(seed);
    std::vector<Value> cotangents;
    for (Value value : grown.values) {
      cotangents.push_back(grown.NewInput(RandomTensor(grown.arena->type(value), rng, -1, 1)));
      grown.moving.push_back(cotangents.back());
    }
    const auto gradients = PullBack(*grown.arena, grown.values, cotangents, grown.moving);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    grown.values = *gradients;
    checked += CheckGraph(grown, seed + 1, 1e-5) == Outcome::kChecked;
    if (HasFailure()) return;
  }
  EXPECT_EQ(checked, graphs) << "of " << drawn;
  RecordProperty("drawn", drawn);
}

}  // namespace
}  // namespace rewright
