#include "verifier/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "substitutions/instances.h"
#include "tests/verifier/rules_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// One verdict for a rule: refuted if one instance is, proved if all are.
ProofResult Worst(const RuleCase& rule) {
  ProofResult worst;
  worst.verdict = Verdict::kProved;
  for (const RuleInstance& instance : rule.instances) {
    ProofOptions options;
    options.time_limit_s = 10;  // verdicts must not depend on the machine
    ProofResult result = Prove(instance, options);
    if (result.verdict == Verdict::kProved) continue;
    if (worst.verdict != Verdict::kRefuted) worst = std::move(result);
  }
  return worst;
}

class RuleFileTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RuleFileTest, VerdictsAreAsExpected) {
  for (const RuleCase& rule : LoadRules(GetParam())) {
    ProofResult result = Worst(rule);
    EXPECT_EQ(VerdictName(result.verdict), rule.expect) << rule.name << ": " << result.reason;
    EXPECT_EQ(result.counterexample.has_value(), result.verdict == Verdict::kRefuted) << rule.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RuleFileTest,
                         ::testing::Values("matmul.rules", "conv.rules", "elementwise.rules", "extra.rules"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

const RuleCase& Find(const std::vector<RuleCase>& rules, const std::string& name) {
  for (const RuleCase& rule : rules) {
    if (rule.name == name) return rule;
  }
  ADD_FAILURE() << name;
  return rules[0];
}

TEST(VerifierTest, CounterexampleSaysWhereAndWhat) {
  const auto rules = LoadRules("elementwise.rules");
  ProofResult result = Prove(Find(rules, "false-relu-of-sum").instances[0]);
  ASSERT_EQ(result.verdict, Verdict::kRefuted);
  ASSERT_TRUE(result.counterexample.has_value());
  const Counterexample& found = *result.counterexample;
  EXPECT_EQ(found.obligation, Obligation::kElements);
  EXPECT_EQ(found.symbols.size(), 1u);
  EXPECT_EQ(found.inputs.size(), 2u);
  EXPECT_NE(found.lhs, found.rhs);
  EXPECT_THAT(found.ToString(), HasSubstr("elements differ m="));
}

TEST(VerifierTest, FiniteOnlyStepsAreReported) {
  const auto rules = LoadRules("elementwise.rules");
  EXPECT_TRUE(Prove(Find(rules, "softmax-by-definition").instances[0]).used_finite_only_step);
  EXPECT_FALSE(Prove(Find(rules, "softmax-of-rows").instances[0]).used_finite_only_step);
}

TEST(VerifierTest, QueriesCanBeKept) {
  const auto rules = LoadRules("matmul.rules");
  ProofOptions options;
  options.keep_smtlib = true;
  ProofResult result = Prove(Find(rules, "concat-of-split").instances[0], options);
  EXPECT_EQ(result.verdict, Verdict::kProved);
  ASSERT_FALSE(result.smtlib.empty());
  EXPECT_THAT(result.smtlib[0], HasSubstr("(check-sat)"));
}

TEST(VerifierTest, WithoutSearchAFalseRuleIsUnknown) {
  const auto rules = LoadRules("matmul.rules");
  ProofOptions options;
  options.search_counterexample = false;
  ProofResult result = Prove(Find(rules, "false-matmul-commutes").instances[0], options);
  EXPECT_EQ(result.verdict, Verdict::kUnknown);
  EXPECT_THAT(result.reason, HasSubstr("elements of output 0"));
}

TEST(VerifierTest, TheTimeLimitEndsInUnknown) {
  const auto rules = LoadRules("conv.rules");
  ProofOptions options;
  options.time_limit_s = 1e-6;
  ProofResult result = Prove(Find(rules, "merge-convs").instances[0], options);
  EXPECT_EQ(result.verdict, Verdict::kUnknown);
  EXPECT_THAT(result.reason, HasSubstr("time limit"));
}

TEST(VerifierTest, TheSameSeedGivesTheSameResult) {
  const auto rules = LoadRules("conv.rules");
  const RuleInstance& instance = Find(rules, "false-merge-with-other-strides").instances[0];
  EXPECT_EQ(Prove(instance).reason, Prove(instance).reason);
}

}  // namespace
}  // namespace rewright
