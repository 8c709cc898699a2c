#include "search/precision/narrowing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/ir/random_tensors.h"
#include "runtime/reference_runner.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

// Four layers; weights are inputs, so that they are drawn like all else.
constexpr char kLayers[] = R"(
input x: f32[8,32]
input a: f32[32,32]
input b: f32[32,32]
input c: f32[32,32]
input d: f32[32,10]
%0 = matmul(x, a)
%1 = relu(%0)
%2 = matmul(%1, b)
%3 = tanh(%2)
%4 = matmul(%3, c)
%5 = gelu(%4)
%6 = matmul(%5, d)
output y = %6
)";

Narrowing Choose(const std::string& text, double tolerance) {
  const Graph graph = GraphWithWeights(text, -1, 1, 1);
  NarrowingOptions options;
  options.tolerance = tolerance;
  options.measure = false;
  for (uint64_t seed = 1; seed <= 3; ++seed) options.inputs.push_back(*RandomInputs(graph, seed));
  const auto runner = MakeReferenceRunner(1);
  const auto chosen = ChooseNarrowNodes(graph, *runner, options);
  EXPECT_TRUE(chosen.ok()) << chosen.status();
  return chosen.ok() ? *chosen : Narrowing();
}

int CountCasts(const Graph& graph) {
  int count = 0;
  for (const NodeId id : graph.nodes()) count += graph.node(id).op != nullptr && graph.node(id).op->name == "cast";
  return count;
}

TEST(Narrowing, AWideToleranceTakesAllNodes) {
  const Narrowing all = Choose(kLayers, 0.2);
  ASSERT_TRUE(all.graph.has_value()) << all.verdict;
  EXPECT_EQ(all.narrow, all.eligible);
  EXPECT_EQ(all.eligible, 7);
  EXPECT_EQ(CountCasts(*all.graph), 6);  // of five inputs and the output
  EXPECT_THAT(all.kept_wide, testing::IsEmpty());
}

TEST(Narrowing, NothingIsWithinAToleranceOfRoundings) {
  const Narrowing none = Choose(kLayers, 1e-6);
  EXPECT_FALSE(none.graph.has_value());
  EXPECT_EQ(none.verdict, "nothing worth computing in 16 bits keeps within 1e-06");
}

// The error that is told was found by running, keeps to the tolerance, and the estimate is not far from it.
TEST(Narrowing, ErrorsKeepToTheTolerance) {
  int partly = 0;
  for (double tolerance = 0.1; tolerance > 1e-4; tolerance *= 0.7) {
    const Narrowing chosen = Choose(kLayers, tolerance);
    if (!chosen.graph) continue;
    EXPECT_LE(chosen.measured, tolerance);
    EXPECT_GT(chosen.measured, chosen.estimated) << tolerance;
    EXPECT_LT(chosen.measured, 10 * chosen.estimated) << tolerance;
    partly += chosen.narrow < chosen.eligible;
    EXPECT_EQ(chosen.kept_wide.empty(), chosen.narrow == chosen.eligible) << tolerance;
  }
  EXPECT_GT(partly, 0);
}

TEST(Narrowing, NoTimeLeavesTheOriginal) {
  const Graph graph = GraphOf(kLayers);
  for (int checks = 0; checks < 3; ++checks) {
    NarrowingOptions options;
    options.tolerance = 0.2;
    options.measure = false;
    options.inputs.push_back(*RandomInputs(graph, 1));
    int asked = 0;
    options.stop = [&] { return asked++ >= checks; };
    const auto chosen = ChooseNarrowNodes(graph, *MakeReferenceRunner(1), options);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_FALSE(chosen->graph.has_value());
    EXPECT_EQ(chosen->verdict, "no time was left to choose nodes for 16 bits");
  }
}

// A choice that is made behind a rounded value would fall otherwise.
TEST(Narrowing, WhatLeadsToADecisionStaysWide) {
  const Narrowing chosen = Choose(R"(
input x: f32[8,32]
input a: f32[32,32]
input b: f32[32,32]
%0 = matmul(x, a)
%1 = argmax(%0, axis=1, keepdims=0)
%2 = matmul(x, b)
%3 = tanh(%2)
output y = %3
output i = %1
)",
                                  0.5);
  ASSERT_TRUE(chosen.graph.has_value()) << chosen.verdict;
  EXPECT_EQ(chosen.eligible, 2);
}

// Results of products with weights may stay wide: a sum that the others round, of large parts that cancel, does not.
TEST(Narrowing, ProductsMayKeepTheirResults) {
  const Narrowing chosen = Choose(R"(
input x: f32[8,32]
input r: f32[8,32]
state w: f32[32,32]
%0 = matmul(x, w)
%1 = add(%0, r)
%2 = sub(%1, r)
output y = %2
)",
                                  0.006);
  ASSERT_TRUE(chosen.graph.has_value()) << chosen.verdict;
  EXPECT_EQ(chosen.verdict, "1 of 1 products on operands in bf16");
  EXPECT_LE(chosen.measured, 0.006);
}

// The largest element of a tanh moves least.
TEST(Narrowing, TheElementThatMovesMostIsLookedAt) {
  const Narrowing chosen = Choose(R"(
input x: f32[8,32]
state w: f32[32,32]
const %0: f32[] = [1000]
%1 = matmul(x, w)
%2 = mul(%1, %0)
%3 = tanh(%2)
output y = %3
)",
                                  1.9);
  ASSERT_TRUE(chosen.graph.has_value()) << chosen.verdict;
  EXPECT_GT(chosen.estimated, 0.01 * chosen.measured);
}

TEST(Narrowing, WithoutAProductNothingIsWorthIt) {
  const Narrowing none = Choose("input x: f32[8]\n%0 = exp(x)\noutput y = %0\n", 0.5);
  EXPECT_FALSE(none.graph.has_value());
  EXPECT_EQ(none.verdict, "no product or convolution may be computed in 16 bits");
}

TEST(LargestDifference, IsAShareOfTheLargestElement) {
  const auto of = [](std::vector<double> elements) {
    return std::vector<Tensor>{Tensor::FromVector<double>(DType::kFloat32, {2}, elements)};
  };
  EXPECT_DOUBLE_EQ(LargestDifference(of({1, -4}), of({1.5, -4})), 0.125);
  EXPECT_DOUBLE_EQ(LargestDifference(of({NAN, INFINITY}), of({NAN, INFINITY})), 0);
  EXPECT_EQ(LargestDifference(of({1, 2}), of({1, INFINITY})), HUGE_VAL);
  EXPECT_EQ(LargestDifference(of({0, 0}), of({0, 1e-9})), HUGE_VAL);
}

}  // namespace
}  // namespace rewright
