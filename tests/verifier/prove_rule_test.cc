#include "verifier/prove_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "substitutions/rule_parser.h"
#include "substitutions/rule_printer.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Rule Parse(const std::string& text) {
  const auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? rules->front() : Rule();
}

RuleVerdict ProveText(const std::string& text) { return ProveRule(Parse(text), RuleProofOptions()); }

struct ClassCase {
  const char* rule;
  RuleClass expected;
};

class Classes : public ::testing::TestWithParam<ClassCase> {};

TEST_P(Classes, AreFound) {
  const RuleVerdict verdict = ProveText(GetParam().rule);
  ASSERT_EQ(verdict.verdict, Verdict::kProved) << verdict.reason;
  EXPECT_STREQ(RuleClassName(verdict.rule_class), RuleClassName(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Classes,
    ::testing::Values(
        ClassCase{"rule r relu(relu(x)) => relu(x)", RuleClass::kExact},
        ClassCase{"rule r transpose(transpose(x[m, n], perm=[1, 0]), perm=[1, 0]) => x", RuleClass::kExact},
        ClassCase{"rule r add(add(x[n], y[n]), z[n]) => add(x, add(y, z))", RuleClass::kReassociating},
        ClassCase{"rule r matmul(matmul(x[m, k], y[k, l]), z[l, n]) => matmul(x, matmul(y, z))",
                  RuleClass::kReassociating},
        // Products of large numbers cancel.
        ClassCase{"rule r mul(x[n], sub(y[n], z[n])) => sub(mul(x, y), mul(x, z))", RuleClass::kNumericallyRisky},
        // The exponentials overflow where the difference is small.
        ClassCase{"rule r exp(sub(x[n], y[n])) => div(exp(x), exp(y))", RuleClass::kNumericallyRisky}));

TEST(ProveRule, CountsInstancesAndTellsTheDomain) {
  const RuleVerdict verdict = ProveText("rule r add(x[n..], y[n..]) => add(y, x)");
  EXPECT_EQ(verdict.verdict, Verdict::kProved) << verdict.reason;
  EXPECT_GE(verdict.instances, 6);
  EXPECT_EQ(verdict.limits, DomainLimits());
  EXPECT_THAT(verdict.domain, HasSubstr("ranks to 6"));
  EXPECT_THAT(verdict.reason, IsEmpty());
}

TEST(ProveRule, RefutesWithSizesAndValues) {
  const RuleVerdict verdict = ProveText("rule r sub(x[n], y[n]) => sub(y, x)");
  EXPECT_EQ(verdict.verdict, Verdict::kRefuted);
  EXPECT_THAT(verdict.witness, Not(IsEmpty()));
  EXPECT_THAT(verdict.domain, IsEmpty());
}

TEST(ProveRule, ARuleWithoutTimeIsUnknown) {
  RuleProofOptions options;
  options.time_limit_s = 0;
  const RuleVerdict verdict = ProveRule(Parse("rule r relu(relu(x)) => relu(x)"), options);
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, HasSubstr("time limit of 0 s"));
}

TEST(ProveRule, AnInterruptedRuleIsUnknown) {
  const std::atomic<bool> stop{true};
  RuleProofOptions options;
  options.stop = &stop;
  const RuleVerdict verdict = ProveRule(Parse("rule r relu(relu(x)) => relu(x)"), options);
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, HasSubstr("interrupted"));
}

TEST(ProveRule, ARuleThatCannotBeUnderstoodIsUnknown) {
  const RuleVerdict verdict = ProveText("rule r relu(x) => relu(y)");
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, HasSubstr("y"));
}

TEST(ProveRule, ItsRecordIsAcceptedByTheLoader) {
  Rule rule = Parse("rule r relu(relu(x)) => relu(x)");
  const RuleVerdict verdict = ProveRule(rule, RuleProofOptions());
  ASSERT_EQ(verdict.verdict, Verdict::kProved);
  const auto record = RecordOf(rule, verdict);
  ASSERT_TRUE(record.ok()) << record.status();
  rule.proof = *record;
  EXPECT_TRUE(RuleSet::FromText(PrintRule(rule), "test").ok());
}

TEST(ConditionsText, JoinsConditions) {
  EXPECT_EQ(ConditionsText(Parse("rule r relu(relu(x[m, n])) => relu(x) when m == 2 and n >= 3")), "m == 2 and n >= 3");
}

}  // namespace
}  // namespace rewright
