// Tests gradients of small models, lowered by the shipped rules: values stay the same, and no derived operator is left.
#include "substitutions/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "core/autodiff/autodiff.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

// Returns the gradients of the first output, weighted by the graph's last input, by all other inputs.
Graph WithGradients(const Graph& graph) {
  std::vector<Value> by = graph.inputs();
  const Value cotangent = by.back();
  by.pop_back();
  const auto gradients = PullBack(*graph.arena(), {graph.outputs()[0].value}, {cotangent}, by);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  std::vector<Output> outputs;
  for (size_t k = 0; k < by.size(); ++k) outputs.push_back({(*gradients)[k], "d" + std::to_string(k)});
  return Graph(graph.arena(), graph.inputs(), outputs);
}

std::set<std::string> DerivedOps(const Graph& graph) {
  std::set<std::string> names;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op != nullptr && absl::StrContains(node.op->name, "_grad_")) names.insert(node.op->name);
  }
  return names;
}

absl::flat_hash_map<std::string, Tensor> Inputs(const Graph& graph) {
  Rng rng(20261122);
  absl::flat_hash_map<std::string, Tensor> inputs;
  for (Value input : graph.inputs()) {
    inputs.emplace(graph.node(input.node).name, RandomTensor(graph.type(input), rng, -1, 1));
  }
  return inputs;
}

struct Model {
  const char* name;
  const char* text;
};

class LoweredModels : public ::testing::TestWithParam<Model> {};

TEST_P(LoweredModels, HaveNoDerivedOperatorAndTheSameValues) {
  const Graph derived = WithGradients(GraphOf(GetParam().text));
  ASSERT_FALSE(DerivedOps(derived).empty());
  const auto lowering = LowerGradients(derived);
  ASSERT_TRUE(lowering.ok()) << lowering.status();
  EXPECT_THAT(DerivedOps(lowering->graph), ::testing::IsEmpty());
  std::set<std::string> replaced;
  for (const Lowering::Step& step : lowering->steps) replaced.insert(step.replaced);
  // Other rules simplify afterwards: a product does not need expanded operands.
  EXPECT_THAT(replaced, ::testing::IsSupersetOf(DerivedOps(derived)));
  const auto inputs = Inputs(derived);
  const auto expected = InterpretGraph(derived, inputs), found = InterpretGraph(lowering->graph, inputs);
  ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
  for (size_t o = 0; o < expected->size(); ++o) {
    for (int64_t i = 0; i < (*expected)[o].num_elements(); ++i) {
      const double value = (*expected)[o].At(i);
      EXPECT_NEAR((*found)[o].At(i), value, 1e-4 * (1 + std::abs(value))) << "output " << o << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LoweredModels,
                         ::testing::Values(Model{"Mlp", R"(
input x: f32[3,5]
input w: f32[5,4]
input b: f32[4]
input v: f32[4,2]
input u: f32[3,2]
%1 = matmul(x, w)
%2 = expand(b, shape=[3,4])
%3 = add(%1, %2)
%4 = relu(%3)
%5 = matmul(%4, v)
%6 = log_softmax(%5)
output y = %6
)"},
                                           Model{"ConvNet", R"(
input x: f32[2,3,7,6]
input w: f32[4,3,3,3]
input v: f32[4,2,3,2]
input u: f32[2,4,1,1]
%1 = conv2d(x, w, strides=[2,1], pads=[1,1,1,1])
%2 = sigmoid(%1)
%3 = conv2d(%2, v, pads=[1,0,1,0], groups=2)
%4 = avg_pool2d(%3, kernel=[2,2], count_include_pad=1)
%5 = reduce_mean(%4, axes=[2,3])
output y = %5
)"},
                                           Model{"Pools", R"(
input x: f32[2,2,15,23]
input w: f32[3,2,2,2]
input u: f32[2,3,1,2]
%1 = conv2d(x, w)
%2 = avg_pool2d(%1, kernel=[2,2], strides=[2,2])
%3 = avg_pool2d(%2, kernel=[2,3], strides=[1,2])
%4 = avg_pool2d(%3, kernel=[3,2], strides=[2,1], pads=[1,0,2,1], count_include_pad=1)
%5 = avg_pool2d(%4, kernel=[4,2], strides=[4,2], count_include_pad=1)
output y = %5
)"},
                                           Model{"TrainedBatchNorm", R"(
input x: f32[3,2,4,3]
input g: f32[2]
input b: f32[2]
input u: f32[3,2,4,3]
%1 = reduce_mean(x, axes=[0,2,3])
%2 = sub(x, %1)
%3 = mul(%2, %2)
%4 = reduce_mean(%3, axes=[0,2,3], keepdims=0)
%5 = reshape(%1, shape=[2])
%6 = batch_norm(x, g, b, %5, %4)
output y = %6
)"},
                                           Model{"Attention", R"(
input x: f32[2,3,4]
input q: f32[4,4]
input k: f32[4,4]
input g: f32[4]
input b: f32[4]
input u: f32[2,3,4]
%1 = layer_norm(x, g, b, axis=2)
%2 = matmul(%1, q)
%3 = matmul(%1, k)
%4 = transpose(%3, perm=[0,2,1])
%5 = matmul(%2, %4)
%6 = softmax(%5)
%7 = matmul(%6, %1)
%8 = gelu(%7)
%9 = add(%8, x)
output y = %9
)"}),
                         [](const auto& info) { return info.param.name; });

TEST(Lowering, ARuleWithSeveralOutputsIsAnError) {
  const std::string text = "rule two\n  { add(x[n], y[n]), mul(x, z[n]) } => { add(y, x), mul(z, x) }\n";
  const auto rules = RuleSet::FromText(text, "two.rules", {.trust_unverified = true});
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto lowering = Lower(GraphOf("input x: f32[2]\n%1 = neg(x)\noutput y = %1\n"), *rules);
  EXPECT_EQ(lowering.status().message(), "rule two: found 2 outputs, expected one");
}

TEST(Lowering, RulesThatUndoOneAnotherAreAnError) {
  const std::string text = "rule there\n  neg(x[n]) => sub(0[n], x)\nrule back\n  sub(0[n], x[n]) => neg(x)\n";
  const auto rules = RuleSet::FromText(text, "two.rules", {.trust_unverified = true});
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto lowering = Lower(GraphOf("input x: f32[2]\n%1 = neg(x)\noutput y = %1\n"), *rules);
  EXPECT_THAT(std::string(lowering.status().message()), ::testing::HasSubstr("still apply after 100 rounds"));
}

}  // namespace
}  // namespace rewright
