#include "search/explain/explain.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<RuleAtNode> Explain(const std::string& rules, const std::string& text, const ExplainQuery& query = {}) {
  FakeDevice device({{"relu", 2.0}, {"exp", 8.0}, {"mul", 1.0}});
  CostModel costs(device);
  return ExplainRules(GraphFrom(text), RulesFrom(rules), costs, query);
}

TEST(Explain, ARuleThatAppliesSavesWhatItsNodesCost) {
  const auto answers = Explain("rule relu-twice\n  relu(relu(x)) => relu(x)\n",
                               "input x: f32[2,3]\n%0 = relu(x)\n%1 = relu(%0)\noutput y = %1\n");
  ASSERT_EQ(answers.size(), 2u);  // the inner one has a part of the pattern
  EXPECT_EQ(answers[0].fit, Fit::kPart);
  EXPECT_EQ(answers[1].fit, Fit::kApplies);
  EXPECT_EQ(answers[1].place, "relu#2");
  EXPECT_NEAR(answers[1].seconds, -2e-3, 1e-6);
}

TEST(Explain, PlacesThatShareANodeCountOnce) {
  const auto answers =
      Explain("rule relu-twice\n  relu(relu(x)) => relu(x)\n",
              "input x: f32[2,3]\n%0 = relu(x)\n%1 = relu(%0)\n%2 = relu(%1)\n%3 = relu(%2)\noutput y = %3\n");
  std::vector<const RuleAtNode*> places;
  for (const RuleAtNode& answer : answers) {
    if (answer.fit == Fit::kApplies) places.push_back(&answer);
  }
  ASSERT_EQ(places.size(), 3u);
  EXPECT_NEAR(SavedAtMost(places), 4e-3, 1e-6);  // the place in the middle shares a node with both others
}

TEST(Explain, APartOfAPatternEndsWhereTheGraphIsAnother) {
  const auto answers = Explain("rule r\n  relu(neg(neg(x))) => relu(x)\n",
                               "input x: f32[2,3]\n%0 = exp(x)\n%1 = neg(%0)\n%2 = relu(%1)\noutput y = %2\n");
  EXPECT_THAT(answers, ElementsAre(AllOf(Field(&RuleAtNode::fit, Fit::kPart), Field(&RuleAtNode::matched, 2),
                                         Field(&RuleAtNode::of, 3), Field(&RuleAtNode::at, "exp#1"),
                                         Field(&RuleAtNode::reason, "expected neg, found exp"))));
}

TEST(Explain, ALeafIsNoOperator) {
  const auto answers =
      Explain("rule r\n  relu(neg(x)) => relu(x)\n", "input x: f32[2,3]\n%0 = relu(x)\noutput y = %0\n");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].reason, "expected neg, found the input x");
}

TEST(Explain, APatternWithoutItsSecondRoot) {
  const auto answers = Explain(
      "rule r\n  { matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..])\n",
      "input x: f32[2,3]\ninput y: f32[3,4]\n%0 = matmul(x, y)\noutput z = %0\n");
  EXPECT_THAT(answers, ElementsAre(AllOf(Field(&RuleAtNode::fit, Fit::kPart), Field(&RuleAtNode::matched, 1),
                                         Field(&RuleAtNode::of, 2), Field(&RuleAtNode::at, "x"),
                                         Field(&RuleAtNode::reason, "found no further matmul that reads it"))));
}

TEST(Explain, AttributesAndConstantsAreNamed) {
  const auto attribute = Explain("rule r\n  softmax(x[a, b], axis=0) => relu(x)\n",
                                 "input x: f32[2,3]\n%0 = softmax(x, axis=1)\noutput y = %0\n");
  ASSERT_EQ(attribute.size(), 1u);
  EXPECT_THAT(attribute[0].reason, HasSubstr("axis=0, found 1"));
  const auto constant = Explain("rule r\n  mul(x, 1) => x\n",
                                "input x: f32[2,3]\nconst %9: f32[] = [2]\n%0 = mul(x, %9)\noutput y = %0\n");
  ASSERT_EQ(constant.size(), 1u);
  EXPECT_THAT(constant[0].reason, HasSubstr("a constant of equal elements 1"));
}

TEST(Explain, AConditionIsShownWithItsValues) {
  const auto answers = Explain("rule r\n  mul(x, ?s) => x\n  when ?s == 1\n",
                               "input x: f32[2,3]\nconst %9: f32[] = [2]\n%0 = mul(x, %9)\noutput y = %0\n");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].fit, Fit::kCondition);
  EXPECT_THAT(answers[0].reason, AllOf(HasSubstr("?s == 1"), HasSubstr("?s=2")));
}

TEST(Explain, ARoundingThatMustStayRefuses) {
  const std::string rules = "rule r\n  mul(mul(x, 3), 3) => mul(x, 9)\n";
  const std::string text =
      "input x: f32[2,3]\nconst %9: f32[] = [3]\n%0 = mul(x, %9)\n%1 = mul(%0, %9)\n%2 = round(%1)\noutput y = %2\n";
  const auto answers = Explain(rules, text);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].fit, Fit::kRefused);
  EXPECT_THAT(answers[1].reason, HasSubstr("a rounding to integers hangs on the result"));
  ExplainQuery query;
  query.keep_roundings = false;
  EXPECT_EQ(Explain(rules, text, query)[1].fit, Fit::kApplies);
}

TEST(Explain, ResultsThatTheDeviceDoesNotRun) {
  FakeDevice device;
  device.unsupported = {"tanh"};
  CostModel costs(device);
  const auto answers = ExplainRules(GraphFrom("input x: f32[2,3]\n%0 = exp(x)\noutput y = %0\n"),
                                    RulesFrom("rule r\n  exp(x) => tanh(x)\n"), costs, {});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].fit, Fit::kNotRunning);
}

TEST(Explain, OnlyTheRulesAndNodesThatAreAskedFor) {
  const std::string rules = "rule a\n  exp(x) => relu(x)\nrule b\n  relu(exp(x)) => exp(x)\n";
  const std::string text = "input x: f32[2,3]\n%0 = exp(x)\n%1 = relu(%0)\noutput y = %1\n";
  EXPECT_EQ(Explain(rules, text).size(), 2u);
  ExplainQuery query;
  query.rules = {1};
  EXPECT_THAT(Explain(rules, text, query), ElementsAre(Field(&RuleAtNode::rule, 1)));
  const Graph graph = GraphFrom(text);
  query.nodes = {graph.nodes()[1]};  // the exponential, which no pattern of b begins with
  FakeDevice device;
  CostModel costs(device);
  EXPECT_THAT(ExplainRules(graph, RulesFrom(rules), costs, query), IsEmpty());
}

}  // namespace
}  // namespace rewright
