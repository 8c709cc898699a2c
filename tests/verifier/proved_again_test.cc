// The rules that come with the program are proved again: a tenth of each file, another one each day, all with
// REWRIGHT_FULL (bench/full).
#include <gtest/gtest.h>

#include <string>

#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/made_sets.h"
#include "tests/verifier/rules_util.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

void ExpectProvedAgain(const std::string& file) {
  const auto rules = ReadRules(file);
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_FALSE(rules->empty());
  LoadOptions all;
  all.allow_risky = all.allow_finite_only = true;
  const auto loaded = RuleSet::FromFiles({file}, all);  // proofs that are missing or stale are refused
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  RuleProofOptions options;
  options.classify = false;
  // The laws of larger tiles take minutes of work, as tools/renew_rules.sh gives them.
  if (file.ends_with("winograd.rules")) options.work_limit_s = options.instance_limit_s = 600;
  ForTodaysCases(static_cast<int>(rules->size()), [&](size_t i) {
    const Rule& rule = (*rules)[i];
    const RuleVerdict verdict = ProveRule(rule, options);
    EXPECT_EQ(verdict.verdict, Verdict::kProved) << rule.name << ": " << verdict.reason;
    EXPECT_EQ(verdict.limits, rule.proof->domain) << rule.name;
    EXPECT_EQ(verdict.instances, rule.proof->instances) << rule.name;
  });
}

class ProvedAgainTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ProvedAgainTest, AreProvedAgainAsTheFileSays) { ExpectProvedAgain(GetParam()); }

TEST(ProvedAgain, MadeSets) {
  for (const std::string& name : MadeSets()) ExpectProvedAgain(MadeSet(name));
}

INSTANTIATE_TEST_SUITE_P(Files, ProvedAgainTest, ::testing::ValuesIn(ShippedRuleFiles()),
                         [](const auto& info) { return TestNameOf(info.param); });

}  // namespace
}  // namespace rewright
