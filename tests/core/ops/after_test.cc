// Tests `after`: a value that is computed again, late, is not shared with the one computed early.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/autodiff/autodiff.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

// exp(x) is read early, and again after the sum is known.
constexpr char kEarly[] = "input x: f64[3]\n%0 = exp(x)\n%1 = reduce_sum(%0, axes=[0], keepdims=0)\n";

TEST(After, KeepsWhatIsComputedAgainApart) {
  const auto shared = ParseGraph(absl::StrCat(kEarly, "%2 = exp(x)\n%3 = mul(%2, %1)\noutput y = %3\n"));
  const auto again =
      ParseGraph(absl::StrCat(kEarly, "%2 = after(x, %1)\n%3 = exp(%2)\n%4 = mul(%3, %1)\noutput y = %4\n"));
  ASSERT_TRUE(shared.ok()) << shared.status();
  ASSERT_TRUE(again.ok()) << again.status();
  const auto exponentials = [](const Graph& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                         [&](NodeId id) { return graph.node(id).op != nullptr && graph.node(id).op->name == "exp"; });
  };
  EXPECT_EQ(exponentials(*shared), 1);
  EXPECT_EQ(exponentials(*again), 2);
  // Parsing shares equal nodes; it keeps these apart, too.
  const auto parsed = ParseGraph(PrintGraph(*again));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(exponentials(*parsed), 2);

  const Tensor x = Tensor::FromVector<double>(DType::kFloat64, {3}, {0.25, -1, 2});
  const auto once = InterpretGraph(*shared, {{"x", x}}), twice = InterpretGraph(*again, {{"x", x}});
  ASSERT_TRUE(once.ok()) << once.status();
  ASSERT_TRUE(twice.ok()) << twice.status();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(once->at(0).At(i), twice->at(0).At(i));
}

// The trigger precedes the repeated computation in every order in which operands precede their readers.
TEST(After, ComesBehindItsTrigger) {
  const auto graph = ParseGraph(absl::StrCat(kEarly, "%2 = after(x, %1)\n%3 = exp(%2)\noutput y = %3\n"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Node& again = graph->node(graph->node(graph->outputs()[0].value.node).operands[0].node);
  ASSERT_EQ(again.op->name, "after");
  EXPECT_EQ(graph->node(again.operands[1].node).op->name, "reduce_sum");
}

TEST(After, PassesGradientsToItsFirstOperandAlone) {
  const auto graph = ParseGraph(
      "input x: f64[2]\ninput t: f64[3]\n%0 = after(x, t)\n%1 = mul(%0, %0)\n"
      "%2 = reduce_sum(%1, axes=[0], keepdims=0)\noutput y = %2\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto gradients = Gradients(*graph->arena(), graph->outputs()[0].value, graph->inputs());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Graph backward(graph->arena(), graph->inputs(), {{(*gradients)[0], "dx"}, {(*gradients)[1], "dt"}});
  // The backward pass reads the value that is kept apart forward; no gradient of the identity occurs.
  EXPECT_THAT(PrintGraph(backward), testing::HasSubstr("after(x, t)"));
  EXPECT_THAT(PrintGraph(backward), testing::Not(testing::HasSubstr("after_grad")));
  const auto values = InterpretGraph(backward, {{"x", Tensor::FromVector<double>(DType::kFloat64, {2}, {3, -4})},
                                                {"t", Tensor({DType::kFloat64, {3}})}});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->at(0).At(0), 6);
  EXPECT_EQ(values->at(0).At(1), -8);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(values->at(1).At(i), 0);
}

}  // namespace
}  // namespace rewright
