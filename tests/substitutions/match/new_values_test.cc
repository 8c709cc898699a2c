// Tests that rules are applied in 16 bits if ranges permit, and before roundings to integers if they keep every bit.
#include "substitutions/match/new_values.h"

#include <gtest/gtest.h>

#include <string>

#include "core/ir/text.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/match/applier.h"
#include "substitutions/match/matcher.h"
#include "substitutions/prover_hash.h"

namespace rewright {
namespace {

// Returns the rule as one that is proved, of these classes, with new values.
std::shared_ptr<const CompiledRule> Proved(const std::string& text, RuleClass rule_class, RuleClass halves,
                                           std::vector<int> new_values) {
  Rule rule = ParseRules(text, "test")->front();
  rule.proof = ProofRecord{.rule_class = rule_class,
                           .halves = halves,
                           .new_values = std::move(new_values),
                           .instances = 1,
                           .prover = ProverHash()};
  return *CompileRule(rule);
}

std::shared_ptr<const CompiledRule> ScaleToLhs() {
  return Proved("rule r mul(matmul(x[m, k], y[k, n]), a[1, 1]) => matmul(mul(x, a), y)", RuleClass::kReassociating,
                RuleClass::kReassociating, {5});
}

// True if the rule may be applied at its only match.
bool Applies(const std::shared_ptr<const CompiledRule>& rule, const Graph& graph) {
  const Matcher matcher(rule, {}, /*halves=*/true);
  const std::vector<Match> matches = matcher.FindMatches(graph);
  EXPECT_FALSE(matches.empty());
  Numerics numerics;
  const auto map = BuildReplacement(graph, matches.at(0), &numerics);
  EXPECT_TRUE(map.ok() || absl::IsOutOfRange(map.status())) << map.status();
  return map.ok();
}

Graph ScaledProduct(DType dtype, double scale) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {dtype, {4, 8}}), y = *arena->AddInput("y", {dtype, {8, 4}});
  Tensor constant(TensorType{dtype, {1, 1}});
  FillWith(scale, &constant);
  const Value product = *arena->Apply("matmul", {x, y});
  return Graph(arena, {x, y}, {{*arena->Apply("mul", {product, arena->AddConstant(constant)}), "z"}});
}

TEST(NewValues, ARuleIsUsedInHalvesWhereTheyCannotOverflow) {
  EXPECT_TRUE(Applies(ScaleToLhs(), ScaledProduct(DType::kFloat16, 0.125)));
  EXPECT_FALSE(Applies(ScaleToLhs(), ScaledProduct(DType::kFloat16, 8)));
  EXPECT_TRUE(Applies(ScaleToLhs(), ScaledProduct(DType::kFloat32, 8)));
  EXPECT_TRUE(Applies(ScaleToLhs(), ScaledProduct(DType::kBFloat16, 8)));
  // A far smaller value loses bits to underflow.
  EXPECT_FALSE(Applies(ScaleToLhs(), ScaledProduct(DType::kFloat16, 1.0 / 1024)));
}

TEST(NewValues, SumsOfUnknownHalvesAreNot) {
  const auto rule = Proved("rule r add(add(x[n], y[n]), z[n]) => add(x, add(y, z))", RuleClass::kReassociating,
                           RuleClass::kReassociating, {5});
  for (const auto& [dtype, applies] : {std::pair(DType::kFloat16, false), {DType::kFloat32, true}}) {
    auto arena = std::make_shared<Arena>();
    std::vector<Value> inputs;
    for (const char* name : {"x", "y", "z"}) inputs.push_back(*arena->AddInput(name, {dtype, {4}}));
    const Value sum = *arena->Apply("add", {*arena->Apply("add", {inputs[0], inputs[1]}), inputs[2]});
    EXPECT_EQ(Applies(rule, Graph(arena, inputs, {{sum, "s"}})), applies) << DTypeName(dtype);
  }
}

// The left side also adds the small bias to the product, so the product is no larger than that sum.
TEST(NewValues, PartsOfSumsAreBoundedByThem) {
  const auto rule = Proved("rule r mul(add(x[n], b[n]), s[n]) => add(mul(x, s), mul(b, s))", RuleClass::kReassociating,
                           RuleClass::kReassociating, {5});
  for (const auto& [bias, applies] : {std::pair(1.0, true), {3000.0, false}}) {
    auto arena = std::make_shared<Arena>();
    const Value x = *arena->AddInput("x", {DType::kFloat16, {4}});
    const auto constant = [&](double number) {
      Tensor tensor(TensorType{DType::kFloat16, {4}});
      FillWith(number, &tensor);
      return arena->AddConstant(tensor);
    };
    const Value sum = *arena->Apply("add", {x, constant(bias)});
    const Graph graph(arena, {x}, {{*arena->Apply("mul", {sum, constant(2)}), "y"}});
    EXPECT_EQ(Applies(rule, graph), applies) << bias;
  }
}

// The left side is known to stay within f16, the right side rounds otherwise: it needs room for that.
TEST(NewValues, ARangeThatEndsWithF16LeavesNoRoomForRoundings) {
  const std::string sums =
      "rule r reduce_sum(reduce_sum(x[m, n], axes=[0], keepdims=0), axes=[0], keepdims=0) "
      "=> reduce_sum(reshape(x, shape=[m * n]), axes=[0], keepdims=0)";
  const auto applies = [&](RuleClass halves, double largest, bool known) {
    const auto rule = Proved(sums, halves, halves, {});
    auto arena = std::make_shared<Arena>();
    const Value input = *arena->AddInput("x", {DType::kFloat16, {4, 4}});
    Tensor end(TensorType{DType::kFloat16, {}});
    FillWith(largest / 16, &end);
    const Value bounded = *arena->Apply("mul", {*arena->Apply("tanh", {input}), arena->AddConstant(end)});
    const Value x = known ? bounded : input;
    const Attrs axis = {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}};
    const Value sum = *arena->Apply("reduce_sum", {*arena->Apply("reduce_sum", {x}, axis)}, axis);
    return Applies(rule, Graph(arena, {input}, {{sum, "s"}}));
  };
  EXPECT_TRUE(applies(RuleClass::kReassociating, 60000, /*known=*/true));
  EXPECT_FALSE(applies(RuleClass::kReassociating, 65000, /*known=*/true));
  EXPECT_TRUE(applies(RuleClass::kExact, 65000, /*known=*/true));
  EXPECT_TRUE(applies(RuleClass::kReassociating, 65000, /*known=*/false));  // the left side may overflow as well
}

// (x + c) - d, all of f32.
Graph RoundedBy(float c, float d) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {4}});
  const auto constant = [&](float value) {
    Tensor tensor(TensorType{DType::kFloat32, {4}});
    FillWith(static_cast<double>(value), &tensor);
    return arena->AddConstant(tensor);
  };
  const Value sum = *arena->Apply("sub", {*arena->Apply("add", {x, constant(c)}), constant(d)});
  return Graph(arena, {x}, {{sum, "s"}});
}

TEST(NewValues, ConstantsThatCancelRoundedTheOriginal) {
  const auto rule = Proved("rule r sub(add(x[n], c[n]), d[n]) => add(x, sub(c, d))", RuleClass::kReassociating,
                           RuleClass::kReassociating, {});
  EXPECT_FALSE(Applies(rule, RoundedBy(12582912, 12582912)));
  EXPECT_FALSE(Applies(rule, RoundedBy(4097, 4096)));
  EXPECT_TRUE(Applies(rule, RoundedBy(2, 1)));
}

// The same, with a number that a rule computes.
TEST(NewValues, NumbersThatCancelRoundedTheOriginal) {
  const auto rule = Proved("rule r sub(add(x[n], ?a), ?b) => add(x, scalar(?a - ?b))", RuleClass::kReassociating,
                           RuleClass::kReassociating, {});
  EXPECT_FALSE(Applies(rule, RoundedBy(12582912, 12582912)));
  EXPECT_FALSE(Applies(rule, RoundedBy(4097, 4096)));
  EXPECT_TRUE(Applies(rule, RoundedBy(2, 1)));
}

TEST(NewValues, BitsAreKeptInFrontOfRoundings) {
  Graph graph = ScaledProduct(DType::kFloat32, 0.125);
  EXPECT_TRUE(Applies(ScaleToLhs(), graph));
  graph.arena()->KeepBits(graph.outputs()[0].value.node);
  EXPECT_FALSE(Applies(ScaleToLhs(), graph));
  EXPECT_TRUE(BuildReplacement(graph, Matcher(ScaleToLhs()).FindMatches(graph).at(0)).ok());  // over the real numbers
  // An exact rule is used, and its result keeps its bits, too.
  const auto rule = Proved("rule r mul(x[a, b], y[1, 1]) => mul(y, x)", RuleClass::kExact, RuleClass::kExact, {});
  const Matcher matcher(rule);
  const std::vector<Match> matches = matcher.FindMatches(graph);
  ASSERT_EQ(matches.size(), 1u);
  Numerics numerics;
  const auto next = ApplyMatch(graph, matches[0], &numerics);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(next->node(next->outputs()[0].value.node).keeps_bits);
}

}  // namespace
}  // namespace rewright
