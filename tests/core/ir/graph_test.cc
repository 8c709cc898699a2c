#include "core/ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/index/cost_features.h"
#include "core/ir/text.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kDiamond[] = R"(
input x: f32[2,3]
%0 = relu(x)
%1 = exp(%0)
%2 = tanh(%0)
%3 = add(%1, %2)
output y = %3
)";

TEST(ArenaTest, EqualApplicationsAreOneNode) {
  Arena arena;
  const Value x = *arena.AddInput("x", {DType::kFloat32, {2, 3}});
  const Value a = *arena.Apply("relu", {x});
  const Value b = *arena.Apply("relu", {x});
  const Value c = *arena.Apply("exp", {x});
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

TEST(ArenaTest, AttributesAreCanonical) {
  Arena arena;
  const Value x = *arena.AddInput("x", {DType::kFloat32, {2, 3}});
  EXPECT_EQ(*arena.Apply("softmax", {x}, {{"axis", int64_t{-1}}}),
            *arena.Apply("softmax", {x}, {{"axis", int64_t{1}}}));
}

TEST(ArenaTest, ConstantsAreSharedByContentAndWeightsByName) {
  Arena arena;
  EXPECT_EQ(arena.AddConstant(Tensor::Int64s({1, 2})), arena.AddConstant(Tensor::Int64s({1, 2})));
  EXPECT_NE(arena.AddConstant(Tensor::Int64s({1, 2})), arena.AddConstant(Tensor::Int64s({1, 3})));
  const Tensor data(TensorType{DType::kFloat32, {4}});
  EXPECT_NE(*arena.AddState("a", data), *arena.AddState("b", data));
  EXPECT_EQ(*arena.AddState("a", data), *arena.AddState("a", data));
  const auto taken = arena.AddInput("a", data.type());
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("input a: the name is taken"));
}

TEST(ArenaTest, WeightOnlyFollowsTheOperands) {
  Arena arena;
  const Value x = *arena.AddInput("x", {DType::kFloat32, {4}});
  const Value w = *arena.AddState("w", Tensor(TensorType{DType::kFloat32, {4}}));
  EXPECT_TRUE(arena.IsKnown(*arena.Apply("exp", {w})));
  EXPECT_FALSE(arena.IsKnown(*arena.Apply("add", {w, x})));
}

TEST(GraphTest, NodesAreInTopologicalOrderWithUsersAndProducers) {
  const Graph graph = GraphOf(kDiamond);
  ASSERT_EQ(graph.nodes().size(), 5u);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (int producer : graph.producers(static_cast<int>(i))) EXPECT_LT(producer, static_cast<int>(i));
    for (int user : graph.users(static_cast<int>(i))) EXPECT_GT(user, static_cast<int>(i));
  }
  EXPECT_THAT(graph.users(1), ElementsAre(2, 3));
  EXPECT_EQ(graph.num_applications(), 4);
}

TEST(GraphTest, KnowsItsOutputsInAnyOrder) {
  const Graph graph = GraphOf(R"(input x: f32[4]
      %1 = exp(x)
      %2 = relu(%1)
      %3 = neg(%2)
      output y = %3
      output z = %1
      output again = %3)");
  std::vector<bool> are_outputs;
  for (NodeId id : graph.nodes()) are_outputs.push_back(graph.is_output({id, 0}));
  EXPECT_THAT(are_outputs, ElementsAre(false, true, false, true));
  EXPECT_FALSE(graph.is_output({graph.nodes()[1], 1}));
  EXPECT_FALSE(Graph().is_output({0, 0}));
}

TEST(GraphTest, ReplaceValuesRebuildsOnlyDownstream) {
  const Graph graph = GraphOf(kDiamond);
  const Value exp{graph.nodes()[2], 0};
  const Value relu{graph.nodes()[1], 0};
  ASSERT_EQ(graph.node(exp.node).op->name, "exp");
  graph.arena()->SetName(Value{graph.nodes()[4], 0}, "sum");
  auto rewritten = ReplaceValues(graph, {{exp, relu}});
  ASSERT_TRUE(rewritten.ok()) << rewritten.status().ToString();
  EXPECT_EQ(PrintGraph(*rewritten), PrintGraph(GraphOf("input x: f32[2,3]\n%0 = relu(x)\n%1 = tanh(%0)\n"
                                                       "%2 = add(%0, %1)\noutput y = %2\n")));
  EXPECT_TRUE(rewritten->contains(graph.nodes()[3])) << "tanh is not downstream: it is the same node";
  EXPECT_EQ(graph.arena()->name(rewritten->outputs()[0].value), "sum");
  EXPECT_EQ(graph.nodes().size(), 5u) << "the original is untouched";
}

TEST(GraphTest, ReplaceValuesRefusesAnotherType) {
  auto graph = GraphOf("input x: f32[2,3]\n%0 = reshape(x, shape=[6])\n%1 = relu(x)\noutput y = %1\noutput z = %0\n");
  const Value relu = graph.outputs()[0].value;
  const auto rewritten = ReplaceValues(graph, {{relu, graph.outputs()[1].value}});
  EXPECT_THAT(std::string(rewritten.status().message()),
              HasSubstr("a value of type f32[2,3] cannot be replaced by one of type f32[6]"));
}

// exp(x) becomes tanh(x) and sqrt(exp(x)) becomes sigmoid(exp(x)): the second replacement holds the first.
TEST(GraphTest, ReplaceEverywhereIsOneAfterTheOther) {
  const Graph graph = GraphOf("input x: f32[2]\n%0 = exp(x)\n%1 = sqrt(%0)\n%2 = add(%1, %0)\noutput y = %2\n");
  Arena& arena = *graph.arena();
  const Value x{graph.nodes()[0], 0}, exp{graph.nodes()[1], 0}, sqrt{graph.nodes()[2], 0};
  const Value tanh = *arena.Apply("tanh", {x}), sigmoid = *arena.Apply("sigmoid", {exp});
  arena.SetName(exp, "first");
  const auto all = ReplaceEverywhere(graph, {{exp, tanh}, {sqrt, sigmoid}});
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(PrintGraph(*all), PrintGraph(GraphOf("input x: f32[2]\n%0 = tanh(x)\n%1 = sigmoid(%0)\n"
                                                 "%2 = add(%1, %0)\noutput y = %2\n")));
  EXPECT_EQ(arena.name(tanh), "first");
  const auto later = ReplaceValues(graph, {{sqrt, sigmoid}});
  ASSERT_TRUE(later.ok());
  const auto both = ReplaceValues(*later, {{exp, tanh}});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->outputs()[0].value, all->outputs()[0].value) << "the very same nodes";
  EXPECT_EQ(ReplaceEverywhere(graph, {})->outputs()[0].value, graph.outputs()[0].value);
}

// Each value is replaced by the one two before it, as twice negated ones are: a chain through the whole graph.
TEST(GraphTest, ReplaceEverywhereFollowsLongChains) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {2}});
  std::vector<Value> values = {x};
  for (int i = 0; i < 200'000; ++i) values.push_back(*arena->Apply("neg", {values.back()}));
  ValueMap replacement;
  for (size_t i = 2; i < values.size(); ++i) replacement[values[i]] = values[i - 2];
  const auto rewritten = ReplaceEverywhere(Graph(arena, {x}, {{values.back(), "y"}}), replacement);
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  EXPECT_EQ(rewritten->outputs()[0].value, x);
}

TEST(GraphTest, ReplaceEverywhereRefusesCycles) {
  const Graph graph = GraphOf("input x: f32[2]\n%0 = exp(x)\n%1 = tanh(x)\noutput y = %0\noutput z = %1\n");
  Arena& arena = *graph.arena();
  const Value exp = graph.outputs()[0].value, tanh = graph.outputs()[1].value;
  const auto depends = [](const absl::StatusOr<Graph>& result) {
    return std::string(result.status().message()) == "the replacements make a value depend on itself";
  };
  // Each reads the other.
  EXPECT_TRUE(
      depends(ReplaceEverywhere(graph, {{exp, *arena.Apply("sqrt", {tanh})}, {tanh, *arena.Apply("sqrt", {exp})}})));
  EXPECT_TRUE(depends(ReplaceEverywhere(graph, {{exp, tanh}, {tanh, exp}})));
  EXPECT_TRUE(depends(ReplaceEverywhere(graph, {{exp, *arena.Apply("relu", {exp})}})));
}

TEST(GraphTest, CanonicalHashIgnoresNamesAndOrder) {
  const Graph a =
      GraphOf("input x: f32[2]\ninput y: f32[2]\n%0 = exp(x)\n%1 = tanh(y)\n%2 = sub(%0, %1)\noutput o = %2\n");
  const Graph b =
      GraphOf("input p: f32[2]\ninput q: f32[2]\n%0 = tanh(q)\n%1 = exp(p)\n%2 = sub(%1, %0)\noutput r = %2\n");
  const Graph c =
      GraphOf("input p: f32[2]\ninput q: f32[2]\n%0 = tanh(q)\n%1 = exp(p)\n%2 = sub(%0, %1)\noutput r = %2\n");
  const Graph d = GraphOf("input p: f32[2]\n%0 = tanh(p)\n%1 = exp(p)\n%2 = sub(%1, %0)\noutput r = %2\n");
  EXPECT_EQ(a.CanonicalHash(), b.CanonicalHash());
  EXPECT_NE(a.CanonicalHash(), c.CanonicalHash());
  EXPECT_NE(a.CanonicalHash(), d.CanonicalHash()) << "aliased inputs are another graph";
}

TEST(GraphTest, CopyKeepsStructureAndNames) {
  const Graph graph = GraphOf(kDiamond);
  graph.arena()->SetName(Value{graph.nodes()[3], 0}, "t");
  const Graph copy = CopyGraph(graph);
  EXPECT_NE(copy.arena(), graph.arena());
  EXPECT_EQ(PrintGraph(copy), PrintGraph(graph));
  EXPECT_EQ(copy.arena()->name(Value{copy.nodes()[3], 0}), "t");
}

TEST(GraphTest, FeaturesCountWork) {
  const Graph graph =
      GraphOf("input x: f32[4,8]\nstate w: f32[8,3]\n%0 = matmul(x, w)\n%1 = relu(%0)\noutput y = %1\n");
  const GraphFeatures features = FeaturesOf(graph);
  EXPECT_EQ(features.flops, 2 * 4 * 8 * 3 + 4 * 3);
  EXPECT_EQ(features.bytes, 4 * (4 * 8 + 8 * 3 + 4 * 3) + 4 * (12 + 12));
  EXPECT_EQ(features.parameters, 24);
}

TEST(GraphTest, SoftmaxCountsItsMaximumOnceARow) {
  const GraphFeatures features = FeaturesOf(GraphOf("input x: f32[10,100]\n%0 = softmax(x)\noutput y = %0\n"));
  EXPECT_LT(features.flops, 10 * 100 * 12) << "linear in the length of a row";
}

// A sum whose positions are data counts every term once. An opaque operator states its own work.
TEST(GraphTest, FeaturesOfScattersAndOpaqueOperators) {
  const char* scatter = R"(
    input x: f32[1000,8]
    input i: i64[50]
    input u: f32[50,8]
    %0 = scatter_add(x, i, u)
    output y = %0
  )";
  EXPECT_EQ(FeaturesOf(GraphOf(scatter)).flops, 50 * 8 + 1000 * 8);
  EXPECT_EQ(FeaturesOf(GraphOf("input x: f32[10,100]\n%0.0, %0.1 = top_k(x, k=3)\noutput y = %0.0\n")).flops, 1000);
}

// The gradient of a strided convolution by its operand has as many products as the convolution itself: of the taps that
// lead to an element, only those that the strides reach count.
TEST(GraphTest, FeaturesCountTheTermsThatExist) {
  const double products = 2 * 4 * 5 * 8 * 8 * 3 * 3;  // 2 samples, 4 to 5 channels, 8 by 8 positions, 3 by 3 taps
  const char* const strided = R"(
    input w: f32[5,4,3,3]
    input u: f32[2,5,8,8]
    %0 = conv2d_grad_x(w, u, strides=[2,2], pads=[1,1,1,1], x_shape=[2,4,16,16])
    output y = %0
  )";
  EXPECT_EQ(FeaturesOf(GraphOf(strided)).flops, 2 * products);
  // The same gradient, written as a convolution of a cotangent with gaps.
  const char* const dilated = R"(
    input u: f32[2,5,8,8]
    input w: f32[4,5,3,3]
    %0 = convolution(u, w, strides=[1,1], pads=[1,1,2,2], lhs_dilations=[2,2])
    output y = %0
  )";
  EXPECT_EQ(FeaturesOf(GraphOf(dilated)).flops, 2 * products);
  const char* const pool = R"(
    input u: f32[1,1,8,8]
    %0 = avg_pool2d_grad_x(u, kernel=[2,2], strides=[2,2], x_shape=[1,1,16,16])
    output y = %0
  )";
  EXPECT_LE(FeaturesOf(GraphOf(pool)).flops, 3 * 16 * 16);
}

TEST(GraphTest, StatesAreKnownAtInferenceAlone) {
  const char* const text = R"(input x: f32[4]
state w: f32[4]
%0 = exp(w)
%1 = mul(x, %0)
const %2: f32[] = [2]
%3 = neg(%2)
%4 = mul(%1, %3)
output y = %4
)";
  const Graph inference = GraphOf(text);
  const Graph training = CopyGraph(inference, Mode::kTraining);
  EXPECT_EQ(inference.num_runtime_nodes(), 2);
  EXPECT_EQ(training.num_runtime_nodes(), 3) << "exp(w) is computed in every step, neg(2) still once";
  EXPECT_NE(inference.CanonicalHash(), training.CanonicalHash());
  for (NodeId id : training.nodes()) {
    const Node& node = training.node(id);
    if (node.leaf != LeafKind::kState) continue;
    EXPECT_NE(training.arena()->Elements(id), nullptr);
    EXPECT_EQ(training.arena()->KnownElements(id), nullptr);
  }
}

TEST(GraphTest, AStateIsNoPartOfItsValue) {
  Arena arena;
  const Tensor one = Tensor::FromVector<float>(DType::kFloat32, {1}, {1});
  const Tensor two = Tensor::FromVector<float>(DType::kFloat32, {1}, {2});
  const auto w = arena.AddState("w", one);
  ASSERT_TRUE(w.ok());
  EXPECT_EQ(*arena.AddState("w", one), *w);
  EXPECT_EQ(arena.AddState("w", two).status().message(), "state w: the name is taken by another leaf");
  Arena other;
  const auto again = other.AddState("w", two);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(arena.node(w->node).hash, other.node(again->node).hash);
}

constexpr char kStep[] = R"(training
input g: f32[4]
state w: f32[4]
%0 = sub(w, g)
%1 = mul(w, w)
output loss = %1
update w = %0
)";

TEST(GraphTest, UpdatesSurviveRewritesAndCopies) {
  const Graph graph = GraphOf(kStep);
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.outputs()[1].updates, graph.node(graph.outputs()[1].value.node).operands[0]);
  const Value next = graph.outputs()[1].value;
  const auto negated = graph.arena()->Apply("neg", {graph.node(next.node).operands[1]});
  const auto sum = graph.arena()->Apply("add", {graph.node(next.node).operands[0], *negated});
  ASSERT_TRUE(sum.ok());
  const auto rewritten = ReplaceValues(graph, {{next, *sum}});
  ASSERT_TRUE(rewritten.ok());
  EXPECT_EQ(rewritten->outputs()[1].value, *sum);
  EXPECT_EQ(rewritten->outputs()[1].updates, graph.outputs()[1].updates);
  EXPECT_EQ(PrintGraph(CopyGraph(graph)), PrintGraph(graph));
  const auto without = ParseGraph(std::string(kStep).substr(0, std::string(kStep).find("update")));
  ASSERT_TRUE(without.ok());
  EXPECT_NE(without->CanonicalHash(), graph.CanonicalHash());
}

}  // namespace
}  // namespace rewright
