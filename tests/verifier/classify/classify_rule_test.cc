#include "verifier/classify/classify_rule.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/verifier/rules_util.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

struct HalvesCase {
  const char* rule;
  RuleClass wide;
  RuleClass halves;
};

void PrintTo(const HalvesCase& c, std::ostream* os) { *os << c.rule; }

class ClassesOnHalves : public ::testing::TestWithParam<HalvesCase> {};

TEST_P(ClassesOnHalves, FollowFromBothSides) {
  const Rule rule = RuleOf(GetParam().rule);
  const RuleVerdict verdict = ProveRule(rule, RuleProofOptions());
  ASSERT_EQ(verdict.verdict, Verdict::kProved) << verdict.reason;
  const auto record = RecordOf(rule, verdict, "", /*halves=*/true);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_STREQ(RuleClassName(record->rule_class), RuleClassName(GetParam().wide));
  ASSERT_TRUE(record->halves.has_value());
  EXPECT_STREQ(RuleClassName(*record->halves), RuleClassName(GetParam().halves));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ClassesOnHalves,
    ::testing::Values(
        // The reciprocal of a subnormal number of f16 overflows, and the quotient need not: the left side alone loses.
        HalvesCase{"rule r mul(x[n], reciprocal(y[n])) => div(x, y)", RuleClass::kReassociating,
                   RuleClass::kReassociating},
        // Squares overflow in f16 where the norm is of ordinary size.
        HalvesCase{"rule r let d = sub(x[m, n], reduce_mean(x, axes=[1])) in"
                   " mul(div(d, sqrt(add(reduce_mean(pow(d, 2), axes=[1]), ?e))), g[n])"
                   " => layer_norm(x, g, 0[n], axis=1, epsilon=?e)",
                   RuleClass::kReassociating, RuleClass::kReassociating},
        // Beside an infinity, sums that nearly cancel round as anywhere else.
        HalvesCase{"rule r add(add(x[b.., n], y[b.., n]), z[b.., n]) => add(x, add(y, z))", RuleClass::kReassociating,
                   RuleClass::kReassociating},
        // Nothing is lost by a right side that overflows where it is seen to (ProofRecord::new_values).
        HalvesCase{"rule r div(x[n], y[n]) => mul(x, reciprocal(y))", RuleClass::kReassociating,
                   RuleClass::kReassociating},
        // The left side has no value at an infinity, in any type.
        HalvesCase{"rule r mul(x[n], 0[n]) => 0[n]", RuleClass::kFiniteOnly, RuleClass::kFiniteOnly},
        // Where the exponential overflows, the quotient is no truth, either.
        HalvesCase{"rule r mul(x[n], exp(neg(y[n]))) => div(x, exp(y))", RuleClass::kFiniteOnly,
                   RuleClass::kFiniteOnly}));

}  // namespace
}  // namespace rewright
