#include "core/numerics/ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "core/autodiff/autodiff.h"
#include "core/base/files.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ops/ops.h"
#include "tests/core/ops/ops_util.h"
#include "tests/support/parsed_graph.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

Facts FactsOfOutput(const Graph& graph, std::map<std::string, Interval> inputs = {}) {
  Numerics numerics({std::move(inputs)});
  return numerics.Of(*graph.arena(), graph.outputs()[0].value);
}

Facts FactsOfText(const std::string& text, std::map<std::string, Interval> inputs = {}) {
  return FactsOfOutput(GraphOf(text), std::move(inputs));
}

void ExpectRange(const Facts& facts, double lo, double hi, double tolerance = 1e-12) {
  EXPECT_LE(facts.range.lo, lo) << facts.ToString();
  EXPECT_GE(facts.range.hi, hi) << facts.ToString();
  if (std::isfinite(lo)) {
    EXPECT_NEAR(facts.range.lo, lo, tolerance) << facts.ToString();
  }
  if (std::isfinite(hi)) {
    EXPECT_NEAR(facts.range.hi, hi, tolerance) << facts.ToString();
  }
}

// Returns the kilobytes of files that lie in this process's memory.
int64_t KilobytesOfFiles() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:")) return std::stoll(line.substr(8));
  }
  return -1;
}

TEST(Facts, OfMappedWeightsGiveTheirPagesBack) {
  constexpr int64_t kElements = int64_t{1} << 22;
  const std::string path = TemporaryFile("mapped_weights");
  ASSERT_TRUE(WriteText(path, std::string(size_t{4} * kElements, '\0')).ok());
  const auto mapped = InputFile::Open(path)->Map();
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  const std::shared_ptr<void> owner = std::const_pointer_cast<void>(*mapped);
  const Tensor weight({DType::kFloat32, {kElements}}, owner, owner.get());
  const int64_t before = KilobytesOfFiles();
  EXPECT_TRUE(FactsOfElements(weight).range == Interval::Of(0));
  EXPECT_LT(KilobytesOfFiles() - before, 1024);  // of 16,384
}

TEST(Intervals, AreRoundedOutwardsAndExactWhereNumbersAre) {
  EXPECT_EQ((Interval{0, 1} + Interval{0.5, 2}), (Interval{0.5, 3}));
  EXPECT_EQ((Interval{-1, 2} * Interval{-3, 4}), (Interval{-6, 8}));
  EXPECT_EQ((Interval{1, 2} / Interval{4, 8}), (Interval{0.125, 0.5}));
  EXPECT_EQ((Interval{0, 0} * Interval{}), Interval::Of(0));
  const Interval third = Interval::Of(1) / Interval::Of(3);
  EXPECT_LT(third.lo, third.hi);
  EXPECT_LE(third.lo * 3, 1);
  const Interval sum = Interval::Of(1) + Interval::Of(0x1p-80);
  EXPECT_EQ(sum.lo, 1);
  EXPECT_GT(sum.hi, 1);
  EXPECT_EQ(Interval::Of(1) / (Interval{0, 2}), (Interval{0.5, kUnbounded}));
  EXPECT_EQ(Square({-3, 2}), (Interval{0, 9}));
}

TEST(Ranges, FunctionsHaveTheirImages) {
  const std::string x = "input x: f32[4]\n";
  ExpectRange(FactsOfText(x + "%1 = tanh(x)\noutput y = %1\n"), -1, 1);
  ExpectRange(FactsOfText(x + "%1 = sigmoid(x)\noutput y = %1\n"), 0, 1);
  ExpectRange(FactsOfText(x + "%1 = exp(x)\noutput y = %1\n", {{"x", {-1, 2}}}), std::exp(-1), std::exp(2), 1e-14);
  ExpectRange(FactsOfText(x + "%1 = relu(x)\noutput y = %1\n", {{"x", {-1, 2}}}), 0, 2);
  ExpectRange(FactsOfText(x + "%1 = mul(x, x)\noutput y = %1\n", {{"x", {-1, 2}}}), 0, 4);
  ExpectRange(FactsOfText(x + "%1 = sub(x, x)\noutput y = %1\n", {{"x", {-1, 2}}}), 0, 0);
  ExpectRange(FactsOfText(x + "%1 = leaky_relu(x, alpha=0.5)\noutput y = %1\n", {{"x", {-1, 2}}}), -0.5, 2);
  ExpectRange(FactsOfText(x + "%1 = elu(x)\noutput y = %1\n"), -1, kUnbounded);
  ExpectRange(FactsOfText(x + "%1 = clip(x, min=-0.5, max=3.0)\noutput y = %1\n"), -0.5, 3);
  const Facts exp = FactsOfText(x + "%1 = exp(x)\noutput y = %1\n");
  EXPECT_TRUE(exp.IsPositive());
  EXPECT_FALSE(exp.may_be_undefined);
  EXPECT_TRUE(FactsOfText(x + "%1 = log(x)\noutput y = %1\n").may_be_undefined);
  EXPECT_FALSE(FactsOfText(x + "%1 = log(x)\noutput y = %1\n", {{"x", {1, 2}}}).may_be_infinite);
  EXPECT_TRUE(FactsOfText(x + "%1 = reciprocal(x)\noutput y = %1\n", {{"x", {0, 2}}}).may_be_infinite);
}

TEST(Ranges, IntegersThatMayWrapAreAnyOfTheirType) {
  const Interval all{-0x1p63, 0x1p63};
  EXPECT_EQ(FactsOfText("input x: i64[4]\n%1 = abs(x)\noutput y = %1\n").range, all);
  EXPECT_EQ(FactsOfText("input x: i64[4]\n%1 = add(x, x)\noutput y = %1\n", {{"x", {0, 0x1p62}}}).range, all);
  EXPECT_EQ(FactsOfText("input x: i32[4]\n%1 = add(x, x)\noutput y = %1\n", {{"x", {0, 0x1p30}}}).range,
            (Interval{-0x1p31, 0x1p31 - 1}));
  ExpectRange(FactsOfText("input x: u8[4]\ninput z: u8[4]\n%1 = sub(x, z)\noutput y = %1\n"), 0, 255);
  ExpectRange(FactsOfText("input x: i64[4]\n%1 = mul(x, x)\noutput y = %1\n", {{"x", {-3, 5}}}), -15, 25);
}

TEST(Ranges, SumsCountTheirTerms) {
  const std::string x = "input x: f32[4,8]\n";
  ExpectRange(FactsOfText(x + "%1 = reduce_sum(x, axes=[1])\noutput y = %1\n", {{"x", {-1, 2}}}), -8, 16);
  ExpectRange(FactsOfText(x + "%1 = reduce_mean(x, axes=[0,1])\noutput y = %1\n", {{"x", {-1, 2}}}), -1, 2);
  ExpectRange(FactsOfText(x + "%1 = reduce_max(x, axes=[1])\noutput y = %1\n", {{"x", {-1, 2}}}), -1, 2);
  ExpectRange(
      FactsOfText(x + "input w: f32[8,3]\n%1 = matmul(x, w)\noutput y = %1\n", {{"x", {-1, 2}}, {"w", {0, 0.5}}}), -4,
      8);
  // Padding of an average adds zeros; padding of a maximum does not take part.
  const std::string image = "input x: f32[1,1,5,5]\n";
  ExpectRange(
      FactsOfText(image + "%1 = avg_pool2d(x, kernel=[3,3], pads=[1,1,1,1], count_include_pad=1)\noutput y = %1\n",
                  {{"x", {1, 2}}}),
      0, 2);
  const Facts max =
      FactsOfText(image + "%1 = max_pool2d(x, kernel=[3,3], pads=[1,1,1,1])\noutput y = %1\n", {{"x", {1, 2}}});
  ExpectRange(max, 1, 2);
  EXPECT_FALSE(max.may_be_infinite);
}

TEST(Ranges, SoftmaxLiesBetweenZeroAndOne) {
  const std::string x = "input x: f32[4,8]\n";
  const Facts softmax = FactsOfText(x + "%1 = softmax(x, axis=1)\noutput y = %1\n");
  EXPECT_EQ(softmax.range, (Interval{0, 1}));
  EXPECT_TRUE(softmax.nonzero);
  EXPECT_FALSE(softmax.may_be_undefined);
  EXPECT_FALSE(softmax.may_be_infinite);
  const Facts log = FactsOfText(x + "%1 = log_softmax(x, axis=1)\noutput y = %1\n");
  EXPECT_EQ(log.range.hi, 0);
  EXPECT_FALSE(log.may_be_undefined);
  // If all elements are masked, the quotient is undefined.
  const Facts masked =
      FactsOfText(x + "const %1: f32[] = [-inf]\n%2 = add(x, %1)\n%3 = softmax(%2, axis=1)\noutput y = %3\n");
  EXPECT_TRUE(masked.may_be_undefined);
}

TEST(Ranges, NormsAreBoundedByTheirNumberOfElements) {
  const std::string text =
      "input x: f32[4,16]\ninput s: f32[16]\ninput b: f32[16]\n%1 = layer_norm(x, s, b)\noutput y = %1\n";
  const Facts norm = FactsOfText(text, {{"s", {1, 1}}, {"b", {0, 0}}});
  ExpectRange(norm, -4, 4, 1e-9);
  EXPECT_FALSE(norm.may_be_undefined);
  EXPECT_FALSE(norm.may_be_infinite);
}

// Softmax and norms as exporters write them, in several nodes.
TEST(Ranges, RelationsBetweenNodesAreFollowed) {
  const std::string x = "input x: f32[4,16]\n";
  const Facts softmax = FactsOfText(x +
                                    "%1 = reduce_max(x, axes=[1], keepdims=1)\n%2 = sub(x, %1)\n%3 = exp(%2)\n"
                                    "%4 = reduce_sum(%3, axes=[1], keepdims=1)\n%5 = div(%3, %4)\noutput y = %5\n");
  EXPECT_EQ(softmax.range, (Interval{0, 1}));
  EXPECT_FALSE(softmax.may_be_undefined);
  EXPECT_FALSE(softmax.may_be_infinite);
  const std::string rms =
      "%1 = mul(x, x)\n%2 = reduce_mean(%1, axes=[1], keepdims=1)\nconst %3: f32[] = [0.001]\n%4 = add(%2, %3)\n";
  ExpectRange(FactsOfText(x + rms + "%5 = sqrt(%4)\n%6 = div(x, %5)\noutput y = %6\n"), -4, 4, 1e-9);
  ExpectRange(FactsOfText(x + rms + "%5 = rsqrt(%4)\n%6 = mul(x, %5)\noutput y = %6\n"), -4, 4, 1e-9);
  ExpectRange(FactsOfText(x + rms + "%5 = sqrt(%4)\n%6 = reciprocal(%5)\n%7 = mul(%6, x)\noutput y = %7\n"), -4, 4,
              1e-9);
  ExpectRange(
      FactsOfText(x + "%1 = reduce_mean(x, axes=[1], keepdims=1)\n%2 = sub(x, %1)\n%3 = mul(%2, %2)\n"
                      "%4 = reduce_mean(%3, axes=[1], keepdims=1)\nconst %5: f32[] = [0.001]\n%6 = add(%4, %5)\n"
                      "%7 = sqrt(%6)\n%8 = div(%2, %7)\noutput y = %8\n"),
      -4, 4, 1e-9);
  // A sum without the element among its terms bounds nothing.
  EXPECT_FALSE(
      FactsOfText(x + "input z: f32[4,16]\n%1 = mul(z, z)\n%2 = reduce_mean(%1, axes=[1], keepdims=1)\n"
                      "const %3: f32[] = [0.001]\n%4 = add(%2, %3)\n%5 = sqrt(%4)\n%6 = div(x, %5)\noutput y = %6\n")
          .range.IsBounded());
  EXPECT_FALSE(
      FactsOfText("input x: f32[16,16]\n%1 = mul(x, x)\n%2 = reduce_mean(%1, axes=[1], keepdims=0)\n"
                  "const %3: f32[] = [0.001]\n%4 = add(%2, %3)\n%5 = sqrt(%4)\n%6 = div(x, %5)\noutput y = %6\n")
          .range.IsBounded());
}

TEST(Ranges, WeightsAreReadOnce) {
  const Tensor w = Tensor::FromVector(DType::kFloat32, {4}, std::vector<double>{-0.5, 0, 0x1p-30, 2});
  const Graph graph = GraphOf("input x: f32[4]\nstate w: f32[4]\n%1 = mul(x, w)\noutput y = %1\n", {{"w", w}});
  Numerics numerics({{{"x", {-1, 1}}}});
  const Facts& facts = numerics.Of(*graph.arena(), graph.states()[0]);
  EXPECT_EQ(facts.range, (Interval{-0.5, 2}));
  EXPECT_EQ(facts.smallest, 0x1p-30);
  EXPECT_FALSE(facts.nonzero);
  EXPECT_FALSE(facts.rounded);
  EXPECT_EQ(numerics.Of(*graph.arena(), graph.outputs()[0].value).range, (Interval{-2, 2}));
  // Training changes them.
  const Graph training =
      GraphOf("training\ninput x: f32[4]\nstate w: f32[4]\n%1 = mul(x, w)\noutput y = %1\n", {{"w", w}});
  EXPECT_EQ(Numerics().Of(*training.arena(), training.states()[0]).range, Interval{});
}

TEST(Ranges, TellWhatRounds) {
  const auto rounded = [](const std::string& text) { return FactsOfText(text).rounded; };
  EXPECT_FALSE(rounded("input x: f32[4]\n%1 = relu(x)\noutput y = %1\n"));
  EXPECT_FALSE(rounded("input x: f16[4,4]\n%1 = transpose(x, perm=[1,0])\noutput y = %1\n"));
  EXPECT_TRUE(rounded("input x: f32[4]\n%1 = add(x, x)\noutput y = %1\n"));
  EXPECT_TRUE(rounded("input x: f32[4]\n%1 = cast(x, to=f16)\noutput y = %1\n"));
  EXPECT_FALSE(rounded("input x: f16[4]\n%1 = cast(x, to=f32)\noutput y = %1\n"));
  EXPECT_TRUE(rounded("input x: f16[4]\n%1 = cast(x, to=bf16)\noutput y = %1\n"));
  EXPECT_FALSE(rounded("input x: u8[4,4]\n%1 = cast(x, to=f32)\n%2 = reduce_sum(%1, axes=[1])\noutput y = %2\n"));
  EXPECT_TRUE(rounded("input x: u8[4,4]\n%1 = cast(x, to=bf16)\n%2 = reduce_sum(%1, axes=[1])\noutput y = %2\n"));
  EXPECT_TRUE(rounded("input x: i64[4]\n%1 = cast(x, to=f32)\noutput y = %1\n"));
  EXPECT_FALSE(rounded("input x: i64[4]\n%1 = mul(x, x)\noutput y = %1\n"));
  const Facts after = FactsOfText("input x: f32[4]\n%1 = exp(x)\n%2 = relu(%1)\noutput y = %2\n");
  EXPECT_TRUE(after.rounded);
  EXPECT_FALSE(after.rounds);
}

TEST(Ranges, DecisionsAreFound) {
  const auto decisions = [](const std::string& text) {
    const Graph graph = GraphOf(text);
    auto all = Numerics().DecisionsOf(graph);
    return all[graph.inputs()[0]];
  };
  const std::string x = "input x: f32[4]\n";
  EXPECT_EQ(decisions(x + "%1 = exp(x)\noutput y = %1\n"), (Decisions{false, false}));
  EXPECT_EQ(decisions(x + "%1 = exp(x)\n%2 = round(%1)\noutput y = %2\n"), (Decisions{true, false}));
  EXPECT_EQ(decisions(x + "%1 = exp(x)\n%2 = argmax(%1)\noutput y = %2\n"), (Decisions{false, true}));
  EXPECT_EQ(decisions(x + "%1 = cast(x, to=i32)\noutput y = %1\n"), (Decisions{true, false}));
  EXPECT_EQ(decisions(x + "%1 = less(x, x)\n%2 = where(%1, x, x)\noutput y = %2\n"), (Decisions{false, true}));
  EXPECT_EQ(decisions(x + "%1 = sign(x)\noutput y = %1\n"), (Decisions{false, true}));
  // Functions with kinks make no decisions.
  for (const char* op : {"relu(x)", "leaky_relu(x)", "elu(x)", "abs(x)", "softplus(x)", "softmax(x)"}) {
    EXPECT_EQ(decisions(x + "%1 = " + op + "\noutput y = %1\n"), (Decisions{false, false})) << op;
  }
}

TEST(Ranges, NewNodesOfAnArenaAreAddedToWhatIsKnown) {
  const Graph graph = GraphOf("input x: f32[4]\n%1 = tanh(x)\noutput y = %1\n");
  Numerics numerics;
  EXPECT_EQ(numerics.Of(*graph.arena(), graph.outputs()[0].value).range, (Interval{-1, 1}));
  const auto square = graph.arena()->Apply("mul", {graph.outputs()[0].value, graph.outputs()[0].value});
  ASSERT_TRUE(square.ok());
  EXPECT_EQ(numerics.Of(*graph.arena(), *square).range, (Interval{0, 1}));
}

// For every operator, elements lie in the ranges that the facts give, with inputs known by their interval.
TEST(Ranges, HoldTheElementsOfEveryOperator) {
  constexpr int kRounds = 40;
  std::set<std::string> unbounded;  // operators with a result that the facts do not bound
  std::vector<const OpDef*> ops = AllOps();
  for (const OpDef* op : ops) {
    Rng rng(kSeed);
    for (int round = 0; round < kRounds; ++round) {
      const OpSample sample = op->sample(rng);
      auto arena = std::make_shared<Arena>();
      std::vector<Value> inputs;
      absl::flat_hash_map<std::string, Tensor> tensors;
      NumericsOptions options;
      for (size_t i = 0; i < sample.inputs.size(); ++i) {
        const std::string name = "x" + std::to_string(i);
        inputs.push_back(*arena->AddInput(name, sample.inputs[i]));
        tensors[name] = RandomTensor(sample.inputs[i], rng, sample.low, sample.high);
        options.inputs[name] = FactsOfElements(tensors[name]).range;
      }
      const auto node = arena->Add(*op, inputs, sample.attrs);
      ASSERT_TRUE(node.ok()) << node.status();
      std::vector<Output> outputs;
      const size_t count = arena->node(*node).outputs.size();
      for (size_t o = 0; o < count; ++o) outputs.push_back({{*node, static_cast<int32_t>(o)}, std::to_string(o)});
      const Graph graph(arena, inputs, outputs);
      Numerics numerics(options);
      const auto exact = InterpretGraph(graph, tensors, {Precision::kFloat64});
      const auto native = InterpretGraph(graph, tensors);
      if (!exact.ok() || !native.ok()) continue;  // an index outside, a division by zero
      for (size_t o = 0; o < count; ++o) {
        const Facts& facts = numerics.Of(*arena, outputs[o].value);
        const std::string where = Text(op->name, sample.inputs, sample.attrs) + ": " + facts.ToString();
        const bool floats = IsFloating(arena->type(outputs[o].value).dtype);
        if (floats && !facts.range.IsBounded()) unbounded.insert(op->name);
        for (int64_t i = 0; i < (*exact)[o].num_elements(); ++i) {
          const double x = (*exact)[o].At(i);
          if (std::isnan(x)) {
            ASSERT_TRUE(facts.may_be_undefined) << where;
            continue;
          }
          if (std::isinf(x)) {
            ASSERT_TRUE(facts.may_be_infinite) << where;
          }
          const double slack = 1e-9 * (1 + std::abs(x));
          ASSERT_GE(x, facts.range.lo - slack) << where;
          ASSERT_LE(x, facts.range.hi + slack) << where;
          if (facts.nonzero && std::abs(x) < 1e-300) FAIL() << where;
          if (x != 0) {
            ASSERT_GE(std::abs(x), facts.smallest * (1 - 1e-9) - 1e-15) << where;
          }
          if (facts.integral) {
            ASSERT_EQ(x, std::trunc(x)) << where;
          }
          if (!facts.rounded) {
            ASSERT_EQ((*native)[o].At(i), x) << where;
          }
        }
      }
    }
  }
  EXPECT_THAT(unbounded, testing::ElementsAre("avg_pool2d", "tan", "top_k"));
}

// Random graphs of functions, sums, extrema and quotients over one matrix and its rows, which have many relations
// between nodes.
TEST(Ranges, HoldTheElementsOfRandomGraphs) {
  const std::vector<std::string> unary = {"exp",  "tanh",       "neg",   "abs",    "relu",
                                          "sqrt", "reciprocal", "rsqrt", "sigmoid"};
  const std::vector<std::string> binary = {"add", "sub", "mul", "div", "div", "max", "min"};
  const std::vector<std::string> reductions = {"reduce_sum", "reduce_max", "reduce_min", "reduce_mean"};
  int bounded = 0, values = 0;
  for (int round = 0; round < Cases(400); ++round) {
    Rng rng(kSeed + static_cast<uint64_t>(round));
    auto arena = std::make_shared<Arena>();
    const Value x = *arena->AddInput("x", F32({3, 5}));
    std::vector<Value> made = {x, x};
    const auto pick = [&](const std::vector<std::string>& names) { return names[rng() % names.size()]; };
    const auto operand = [&] { return made[made.size() - 1 - rng() % std::min<size_t>(made.size(), 5)]; };
    for (int i = 0; i < 14; ++i) {
      const uint64_t kind = rng() % 5;
      const auto value = kind == 0   ? arena->Apply(pick(unary), {operand()})
                         : kind <= 2 ? arena->Apply(pick(binary), {operand(), operand()})
                                     : arena->Apply(pick(reductions), {operand()},
                                                    {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
      ASSERT_TRUE(value.ok()) << value.status();
      made.push_back(*value);
    }
    std::vector<Output> outputs;
    for (size_t i = 2; i < made.size(); ++i) outputs.push_back({made[i], std::to_string(i)});
    const Graph graph(arena, {x}, outputs);
    const Tensor input = RandomTensor(F32({3, 5}), rng, rng() % 2 == 0 ? -2 : 0.5, 3);
    Numerics numerics({{{"x", FactsOfElements(input).range}}});
    const auto results = InterpretGraph(graph, {{"x", input}}, {Precision::kFloat64});
    ASSERT_TRUE(results.ok()) << results.status();
    for (size_t o = 0; o < outputs.size(); ++o) {
      const Facts& facts = numerics.Of(*arena, outputs[o].value);
      const std::string where = "round " + std::to_string(round) + ": " + facts.ToString() + "\n" + PrintGraph(graph);
      ++values;
      bounded += facts.range.IsBounded() ? 1 : 0;
      for (int64_t i = 0; i < (*results)[o].num_elements(); ++i) {
        const double y = (*results)[o].At(i);
        if (std::isnan(y)) {
          ASSERT_TRUE(facts.may_be_undefined) << where;
        } else if (std::isinf(y) && !facts.may_be_infinite) {
          ASSERT_FALSE(facts.range.IsBounded()) << where;  // it overflowed
        } else if (std::isfinite(y)) {
          // The slack allows for rounding that may have cancelled all digits.
          const double slack = 1e-9 * (1 + std::abs(y));
          ASSERT_GE(y, facts.range.lo - slack) << where;
          ASSERT_LE(y, facts.range.hi + slack) << where;
        }
      }
    }
  }
  EXPECT_GT(bounded, values / 3);
}

}  // namespace
}  // namespace rewright
