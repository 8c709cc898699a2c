#include "verifier/infer/infer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Inference Infer(const std::string& text) {
  const auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? InferConditions(rules->at(0), RuleProofOptions()) : Inference();
}

std::vector<std::string> Answers(const Inference& inference) {
  std::vector<std::string> answers;
  for (const InferredCondition& answer : inference.answers) answers.push_back(answer.when);
  return answers;
}

std::vector<std::string> RefutedWeaker(const InferredCondition& answer) {
  std::vector<std::string> weaker;
  for (const WeakerCondition& condition : answer.refuted) weaker.push_back(condition.when);
  return weaker;
}

struct InferCase {
  const char* name;
  const char* rule;
  std::vector<std::string> answers;  // each alone makes the rule true, and none is weaker than another
};

class Inferred : public ::testing::TestWithParam<InferCase> {};

TEST_P(Inferred, IsTheWeakestOfTheFamily) {
  const Inference inference = Infer(GetParam().rule);
  EXPECT_TRUE(inference.complete);
  EXPECT_THAT(Answers(inference), ::testing::UnorderedElementsAreArray(GetParam().answers));
  for (const InferredCondition& answer : inference.answers) {
    EXPECT_EQ(answer.verdict.verdict, Verdict::kProved);
    EXPECT_THAT(answer.unknown, IsEmpty());
    // The printed rule is the rule that was proved.
    const auto again = ParseRules(PrintLaw(answer.rule), "printed");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(ProveRule(again->at(0), RuleProofOptions()).verdict, Verdict::kProved);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Inferred,
    ::testing::Values(
        InferCase{"EqualSizes",
                  "rule r concat(conv2d(x[n, c, h, w], y[o1, c, r, s]), conv2d(z[n, c, h, w], k[o2, c, r, s]), axis=1)"
                  " => conv2d(concat(x, z, axis=1), concat(y, k, axis=0), groups=2) when (o1 + o2) mod 2 == 0",
                  {"o1 == o2"}},
        InferCase{"OneGroup",
                  "rule r concat(conv2d(x[n, g * c, h, w], y[g * p, c, r, s], groups=g),"
                  " conv2d(x, z[g * q, c, r, s], groups=g), axis=1)"
                  " => conv2d(x, concat(y, z, axis=0), groups=g)",
                  {"g == 1"}},
        InferCase{"NoPadding",
                  "rule r avg_pool2d(x[n, c, h, w], kernel=[?r, ?s], pads=[?p, ?p, ?p, ?p])"
                  " => conv2d(x, div(1[c, 1, ?r, ?s], scalar(?r * ?s)), pads=[?p, ?p, ?p, ?p], groups=c)",
                  {"?p == 0"}},
        InferCase{"CountConvention",
                  "rule r avg_pool2d(x[n, c, h, w], kernel=[3, 3], pads=[1, 1, 1, 1], count_include_pad=?f)"
                  " => conv2d(x, scalar(1 / 9)[c, 1, 3, 3], pads=[1, 1, 1, 1], groups=c)",
                  {"?f == 1"}},
        InferCase{"Positivity", "rule r relu(mul(x[n], a[])) => mul(relu(x), a)", {"positive(a)"}},
        InferCase{"PositiveTogether",
                  "rule r relu(add(x[n], y[n])) => add(relu(x), relu(y))",
                  {"positive(x) and positive(y)"}},
        InferCase{"Axes",
                  "rule r softmax(concat(x[a, b], y[a, b], axis=?p), axis=?q)"
                  " => concat(softmax(x, axis=?q), softmax(y, axis=?q), axis=?p)",
                  {"?p != ?q"}},
        InferCase{"ZeroStart",
                  "rule r slice(slice(x[n], starts=[?a], stops=[?b]), starts=[?c], stops=[?d])"
                  " => slice(x, starts=[?a + ?c], stops=[?d]) when ?a + ?c <= ?d",
                  {"?a == 0"}},
        InferCase{"Alternatives",
                  "rule r reshape(x[s, h * d], shape=[s, h, d])"
                  " => transpose(reshape(x, shape=[s, d, h]), perm=[0, 2, 1]) when h * d == dim(x, 1)",
                  {"h == 1", "d == 1"}},
        InferCase{"OddKernel",
                  "rule r conv2d(x[n, c, h, w], y[o, c, k, k], pads=[k div 2, k div 2, k div 2, k div 2])"
                  " => conv2d(x, y, pads=[(k - 1) div 2, (k - 1) div 2, k div 2, k div 2])",
                  {"k mod 2 == 1"}},
        InferCase{"None", "rule r concat(x[n], y[n], axis=0) => concat(y, x, axis=0)", {}}),
    [](const auto& info) { return info.param.name; });

TEST(Infer, SaysWhichWeakerConditionsAreRefuted) {
  const Inference inference = Infer("rule r matmul(x[n, n], y[n, n]) => matmul(y, x)");
  ASSERT_THAT(Answers(inference), ElementsAre("n == 1"));
  const InferredCondition& answer = inference.answers[0];
  EXPECT_THAT(RefutedWeaker(answer), ElementsAre("n mod 2 == 1"));
  EXPECT_THAT(answer.refuted[0].witness, ::testing::HasSubstr("n=3"));
}

TEST(Infer, KeepsTheConditionsOfTheRule) {
  const Inference inference = Infer(
      "rule r slice(slice(x[n], starts=[?a], stops=[?b]), starts=[?c], stops=[?d])"
      " => slice(x, starts=[?a + ?c], stops=[?d]) when ?a + ?c <= ?d");
  ASSERT_FALSE(inference.answers.empty());
  EXPECT_EQ(ConditionsText(inference.answers[0].rule), "?a + ?c <= ?d and ?a == 0");
}

TEST(Infer, TheLimitOfWorkEndsIt) {
  const auto rules = ParseRules("rule r matmul(x[n, n], y[n, n]) => matmul(y, x)", "test");
  RuleProofOptions options;
  options.work_limit_s = 1e-6;
  const Inference inference = InferConditions(rules->at(0), options);
  EXPECT_FALSE(inference.complete);
  EXPECT_THAT(inference.answers, IsEmpty());
}

}  // namespace
}  // namespace rewright
