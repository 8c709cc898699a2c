#include "core/numerics/error_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/numerics/rounding_op.h"
#include "core/ops/ops.h"
#include "tests/core/ops/ops_util.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

ErrorEstimate Estimate(const Graph& graph, ErrorOptions options = {}, uint64_t seed = kSeed) {
  const auto inputs = RandomInputs(graph, seed);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  options.measure = true;
  const auto estimate = EstimateErrors(graph, *inputs, options);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate.ok() ? *estimate : ErrorEstimate();
}

// Checks over several inputs and elements that no error exceeds the worst case, and that the root of the mean square
// error, in units of the typical one, lies between the two numbers.
void ExpectErrors(const std::string& text, double low, double high, const std::string& precision = "",
                  const std::map<std::string, Tensor>& states = {}) {
  const Graph graph = GraphOf(text, states);
  double squares = 0;
  int looks = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    ErrorOptions options{.elements = 6, .most_looks = 6, .seed = seed};
    if (!precision.empty()) options.precision = *ParseRunPrecision(precision);
    const ErrorEstimate estimate = Estimate(graph, options, seed);
    EXPECT_THAT(estimate.looks, ::testing::Not(IsEmpty())) << text;
    for (const OutputError& look : estimate.looks) {
      EXPECT_LE(*look.measured, look.worst * (1 + 1e-3)) << text << precision << " element " << look.element;
      EXPECT_LE(look.typical, look.worst * (1 + 1e-6)) << text << precision;
      squares += *look.measured * *look.measured / (look.typical * look.typical);
      ++looks;
    }
  }
  const double ratio = std::sqrt(squares / looks);
  EXPECT_GT(ratio, low) << text << precision;
  EXPECT_LT(ratio, high) << text << precision;
}

TEST(ErrorEstimate, OneOperationIsOneRounding) {
  const std::string x = "input x: f32[64,64]\ninput z: f32[64,64]\n";
  for (const char* op : {"add(x, z)", "mul(x, z)", "div(x, z)", "exp(x)", "tanh(x)", "gelu(x)", "sigmoid(x)"}) {
    ExpectErrors(x + "%1 = " + op + "\noutput y = %1\n", 0.2, 2);
  }
}

TEST(ErrorEstimate, WhatMovesAddsNothing) {
  const Graph graph = GraphOf("input x: f32[4,8]\n%1 = transpose(x, perm=[1,0])\n%2 = relu(%1)\noutput y = %2\n");
  const ErrorEstimate estimate = Estimate(graph);
  ASSERT_THAT(estimate.looks, SizeIs(1));
  EXPECT_EQ(estimate.looks[0].worst, 0);
  EXPECT_THAT(estimate.looks[0].shares, IsEmpty());
  EXPECT_EQ(*estimate.looks[0].measured, 0);
}

TEST(ErrorEstimate, SumsOfManyTerms) {
  ExpectErrors("input x: f32[16,1024]\n%1 = reduce_sum(x, axes=[1])\noutput y = %1\n", 0.3, 3);
  ExpectErrors("input x: f32[16,1024]\n%1 = reduce_mean(x, axes=[1])\noutput y = %1\n", 0.3, 3);
  ExpectErrors("input x: f32[16,1024]\n%1 = abs(x)\n%2 = reduce_sum(%1, axes=[1])\noutput y = %2\n", 0.3, 3);
  ExpectErrors("input x: f32[16,512]\ninput w: f32[512,16]\n%1 = matmul(x, w)\noutput y = %1\n", 0.3, 3);
  ExpectErrors("input x: f32[1,8,9,9]\ninput w: f32[4,8,3,3]\n%1 = conv2d(x, w, pads=[1,1,1,1])\noutput y = %1\n", 0.3,
               3);
}

TEST(ErrorEstimate, CancellationKeepsTheErrorOfTheTerms) {
  // (x + 1000) - 1000 has the roundings of numbers near 1000.
  const std::string text =
      "input x: f32[256]\nconst %1: f32[] = [1000]\n%2 = add(x, %1)\n%3 = sub(%2, %1)\noutput y = %3\n";
  ExpectErrors(text, 0.3, 3);
  const ErrorEstimate estimate = Estimate(GraphOf(text));
  EXPECT_GT(estimate.looks[0].worst, 1000 * 0x1p-24 * 0.9);
  EXPECT_EQ(estimate.looks[0].shares[0].op, "add");
}

TEST(ErrorEstimate, NormsAndSoftmax) {
  ExpectErrors("input x: f32[16,64]\n%1 = softmax(x)\noutput y = %1\n", 0.2, 3);
  ExpectErrors("input x: f32[16,64]\n%1 = log_softmax(x)\noutput y = %1\n", 0.2, 3);
  ExpectErrors("input x: f32[16,64]\ninput s: f32[64]\ninput b: f32[64]\n%1 = layer_norm(x, s, b)\noutput y = %1\n",
               0.2, 3);
}

TEST(ErrorEstimate, MasksOfInfinities) {
  Tensor mask({DType::kFloat32, {6, 6}});
  for (int64_t i = 0; i < 36; ++i) mask.Set(i, i % 6 > i / 6 ? -HUGE_VAL : 0);
  ExpectErrors(
      "input x: f32[6,6]\nstate mask: f32[6,6]\n%1 = add(x, mask)\n%2 = softmax(%1, axis=1)\n"
      "%3 = matmul(%2, x)\noutput y = %3\n",
      0.1, 2, "", {{"mask", mask}});
}

TEST(ErrorEstimate, NarrowTypes) {
  const std::string half =
      "input x: f16[16,64]\ninput w: f16[64,16]\n%1 = matmul(x, w)\n%2 = softmax(%1)\noutput y = %2\n";
  ExpectErrors(half, 0.3, 3);
  const std::string brain =
      "input x: bf16[16,64]\ninput w: bf16[64,16]\n%1 = matmul(x, w)\n%2 = gelu(%1)\noutput y = %2\n";
  ExpectErrors(brain, 0.3, 3);
}

TEST(ErrorEstimate, AModelInAnotherPrecision) {
  Rng rng(kSeed);
  const std::map<std::string, Tensor> states = {{"w", RandomTensor(F32({64, 32}), rng, -0.2, 0.2)},
                                                {"v", RandomTensor(F32({32, 8}), rng, -0.2, 0.2)}};
  const std::string text =
      "input x: f32[16,64]\nstate w: f32[64,32]\nstate v: f32[32,8]\n%1 = matmul(x, w)\n%2 = tanh(%1)\n"
      "%3 = matmul(%2, v)\noutput y = %3\n";
  for (const char* precision : {"f16", "bf16", "f32", ""}) ExpectErrors(text, 0.3, 3, precision, states);
  const Graph graph = GraphOf(text, states);
  ErrorOptions options;
  options.precision = *ParseRunPrecision("bf16");
  const ErrorEstimate estimate = Estimate(graph, options);
  const auto weight = std::find_if(estimate.looks[0].shares.begin(), estimate.looks[0].shares.end(),
                                   [](const ErrorShare& share) { return share.name == "w"; });
  ASSERT_NE(weight, estimate.looks[0].shares.end());
  EXPECT_GT(weight->square, 0);
  options.precision = *ParseRunPrecision("tf32");
  const ErrorEstimate tf32 = Estimate(graph, options);
  EXPECT_GT(tf32.looks[0].typical, 100 * Estimate(graph).looks[0].typical);
  EXPECT_FALSE(ParseRunPrecision("i32").has_value());
}

TEST(ErrorEstimate, IntegersHaveNoneAndDecisionsAreCounted) {
  const ErrorEstimate estimate =
      Estimate(GraphOf("input x: f32[4,8]\n%1 = exp(x)\n%2 = argmax(%1, axis=1)\n%3 = round(%1)\n%4 = mul(%3, "
                       "%1)\noutput i = %2\noutput y = %4\n"));
  EXPECT_THAT(estimate.without, ::testing::ElementsAre("i"));
  EXPECT_THAT(estimate.decisions, SizeIs(2));
  ASSERT_THAT(estimate.looks, SizeIs(1));
  EXPECT_EQ(estimate.looks[0].output, "y");
  EXPECT_THAT(estimate.blocked, IsEmpty());
}

TEST(ErrorEstimate, OperatorsWithoutDerivativeAreHeld) {
  const ErrorEstimate estimate =
      Estimate(GraphOf("input x: f32[4,8]\n%1 = exp(x)\n%2.0, %2.1 = top_k(%1, k=2)\n%3 = exp(%2.0)\noutput y = %3\n"));
  ASSERT_THAT(estimate.looks, SizeIs(1));
  EXPECT_THAT(estimate.blocked, SizeIs(1));
  EXPECT_THAT(estimate.decisions, SizeIs(1));
  EXPECT_GT(estimate.looks[0].worst, 0);
}

// The estimate does not compute what is written for derivatives alone: values that are held, terms of an extremum.
TEST(ErrorEstimate, RunsNoCopies) {
  const Graph graph = GraphOf(
      "input x: f32[1,2,9,9]\ninput b: f32[2,1,1]\n%1 = add(x, b)\n"
      "%2 = max_pool2d(%1, kernel=[3,3], strides=[2,2])\n%3 = mul(%2, %2)\noutput y = %3\n");
  std::set<std::string> run;
  ErrorOptions options;
  options.lower = [&](const Graph& lowered) {
    for (const NodeId id : lowered.nodes()) {
      if (lowered.node(id).op != nullptr) run.insert(lowered.node(id).op->name);
    }
    return lowered;
  };
  const ErrorEstimate estimate = Estimate(graph, options);
  ASSERT_THAT(estimate.looks, SizeIs(1));
  EXPECT_GE(estimate.looks[0].worst, *estimate.looks[0].measured);
  EXPECT_THAT(run, ::testing::IsSupersetOf({"max_pool2d", "max_pool2d_terms_grad_x"}));
  for (const char* copy : {"hold", "max_pool2d_terms", "sub", "add_grad_a"}) EXPECT_FALSE(run.contains(copy)) << copy;
}

TEST(ErrorEstimate, ResultsThatAreTooLargeAreNamed) {
  ErrorOptions options;
  options.precision = *ParseRunPrecision("f16");
  const ErrorEstimate estimate = Estimate(
      GraphOf("input x: f32[4,8]\nconst %1: f32[] = [100000]\n%2 = mul(x, %1)\n%3 = tanh(%2)\noutput y = %3\n"),
      options);
  EXPECT_THAT(estimate.overflows, ::testing::Not(IsEmpty()));
}

TEST(ErrorEstimate, WideNodesAreRefused) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {2}});
  const Value all = *arena->Apply("concat", std::vector<Value>(1000, x), {{"axis", int64_t{0}}});
  const Graph graph(arena, {x}, {{*arena->Apply("exp", {all}), "y"}});
  EXPECT_EQ(EstimateErrors(graph, *RandomInputs(graph, kSeed), {}).status().message(),
            "found concat of 1000 values, expected at most 300");
}

// Compares the root mean square error over many elements with the estimate, for every operator with floating results.
TEST(ErrorEstimate, HoldsForEveryOperator) {
  std::vector<std::string> not_compared;
  for (const OpDef* op : AllOps()) {
    int compared = 0;
    Rng rng(kSeed);
    for (int round = 0; round < 4; ++round) {
      const OpSample sample = op->sample(rng);
      auto arena = std::make_shared<Arena>();
      std::vector<Value> operands;
      std::vector<Tensor> inputs;
      for (size_t i = 0; i < sample.inputs.size(); ++i) {
        operands.push_back(*arena->AddInput("x" + std::to_string(i), sample.inputs[i]));
        inputs.push_back(RandomTensor(sample.inputs[i], rng, sample.low, sample.high));
      }
      const auto node = arena->Add(*op, operands, sample.attrs);
      ASSERT_TRUE(node.ok()) << node.status();
      if (arena->node(*node).meaning->IsOpaque() || op->name == "random_uniform") continue;
      std::vector<Output> outputs;
      for (size_t o = 0; o < arena->node(*node).outputs.size(); ++o) {
        outputs.push_back({{*node, static_cast<int32_t>(o)}, std::to_string(o)});
      }
      const auto estimate =
          EstimateErrors(Graph(arena, operands, outputs), inputs, {.elements = 4, .most_looks = 8, .measure = true});
      const std::string where = Text(op->name, sample.inputs, sample.attrs);
      if (!estimate.ok() && absl::IsOutOfRange(estimate.status())) continue;  // an index, a division by 0
      ASSERT_TRUE(estimate.ok()) << where << ": " << estimate.status();
      EXPECT_THAT(estimate->blocked, IsEmpty()) << where;
      if (!estimate->decisions.empty()) continue;
      for (const OutputError& look : estimate->looks) {
        if (!std::isfinite(look.value)) continue;
        ++compared;
        EXPECT_LE(*look.measured, look.worst * (1 + 1e-3) + 1e-44) << where << " element " << look.element;
      }
    }
    if (compared == 0) not_compared.push_back(op->name);
  }
  // Integers and truth values, decisions, bits, and what has no declaration.
  EXPECT_THAT(not_compared,
              testing::ElementsAre("logical_not", "rem", "mod", "equal", "not_equal", "less", "less_equal", "greater",
                                   "greater_equal", "logical_and", "logical_or", "logical_xor", "bit_and", "bit_or",
                                   "bit_xor", "shift_left", "shift_right", "reduce_and", "reduce_or", "argmax", "top_k",
                                   "random_uniform"));
}

}  // namespace
}  // namespace rewright
