// A proof takes constants and integers for the numbers that a graph has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "substitutions/language/rule_parser.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

struct VerdictCase {
  const char* rule;
  Verdict expected;
};

void PrintTo(const VerdictCase& c, std::ostream* os) { *os << c.rule; }

RuleVerdict Prove(const std::string& text) {
  const auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? ProveRule(rules->front(), RuleProofOptions()) : RuleVerdict();
}

class Constants : public ::testing::TestWithParam<VerdictCase> {};

TEST_P(Constants, AreTheNumbersOfGraphs) {
  const RuleVerdict verdict = Prove(GetParam().rule);
  EXPECT_STREQ(VerdictName(verdict.verdict), VerdictName(GetParam().expected)) << verdict.reason << verdict.witness;
}

INSTANTIATE_TEST_SUITE_P(
    Integers, Constants,
    ::testing::Values(
        // Sums of constants wrap around as those of elements do.
        VerdictCase{"rule r add(add(x: i64[n], ?a: i64), ?b: i64) => add(x, scalar(?a + ?b): i64[n])",
                    Verdict::kProved},
        VerdictCase{"rule r add(add(x: i32[n], ?a: i32), ?b: i32) => add(x, scalar(?a + ?b): i32[n])",
                    Verdict::kProved},
        VerdictCase{"rule r mul(mul(x: i64[n], ?a: i64), ?b: i64) => mul(x, scalar(?a * ?b): i64[n])",
                    Verdict::kProved},
        VerdictCase{"rule r add(sub(x: i64[n], ?a: i64), ?a: i64) => x", Verdict::kProved},
        VerdictCase{"rule r add(x: i64[n], ?a: i64) => add(x, scalar(?a + 1): i64[n])", Verdict::kRefuted},
        VerdictCase{"rule r less(x: i64[n], add(x, ?a: i64)) => less(0: i64[n], ?a: i64[n])", Verdict::kRefuted},
        // 2^53 and 2^53 + 1 are two numbers.
        VerdictCase{"rule r add(sub(x: i64[n], 9007199254740992: i64), 9007199254740993: i64) => x", Verdict::kRefuted},
        VerdictCase{"rule r add(sub(x: i64[n], 9007199254740992: i64), 9007199254740993: i64) => add(x, 1: i64[n])",
                    Verdict::kProved},
        VerdictCase{"rule r add(x: i64[n], -9223372036854775808: i64) => x", Verdict::kRefuted},
        // No quotient of integers is a constant of theirs, and a sum of truth values is none.
        VerdictCase{"rule r mul(mul(x: i64[n], ?a: i64), ?b: i64) => mul(mul(x, scalar(?a / ?b): i64[n]), mul(?b: "
                    "i64[n], ?b: i64[n])) when positive(?b)",
                    Verdict::kUnknown},
        VerdictCase{"rule r add(cast(?a: bool[n], to=f32), cast(?b: bool[n], to=f32)) "
                    "=> cast(scalar(?a + ?b): bool[n], to=f32)",
                    Verdict::kUnknown},
        // A padding of integers has an integer.
        VerdictCase{"rule r add(pad(x: i64[n], before=[1], after=[1], value=?v), pad(y: i64[n], before=[1], after=[1], "
                    "value=?w)) => pad(add(x, y), before=[1], after=[1], value=?v + ?w)",
                    Verdict::kRefuted},
        VerdictCase{"rule r neg(pad(x: i64[n], before=[1], after=[1], value=2)) "
                    "=> pad(neg(x), before=[1], after=[1], value=-2)",
                    Verdict::kProved}));

INSTANTIATE_TEST_SUITE_P(
    Reals, Constants,
    ::testing::Values(
        // 16777217 is no f32.
        VerdictCase{"rule r sub(add(x[n], 16777217), 16777216) => add(x, 1)", Verdict::kRefuted},
        VerdictCase{"rule r sub(add(x: f32[n], 16777217: f32), 16777216: f32) => add(x, 1: f32)", Verdict::kRefuted},
        VerdictCase{"rule r sub(add(x: f32[n], 16777217: f32), 16777216: f32) => x", Verdict::kProved},
        VerdictCase{"rule r sub(add(x: f64[n], 16777217: f64), 16777216: f64) => add(x, 1: f64[n])", Verdict::kProved},
        VerdictCase{"rule r add(mul(x[n], 0.1), mul(y[n], 0.1)) => mul(add(x, y), 0.1)", Verdict::kProved},
        // Reals between integers tell these apart.
        VerdictCase{"rule r floor(x[n]) => x", Verdict::kRefuted},
        VerdictCase{"rule r ceil(x[n]) => floor(x)", Verdict::kRefuted},
        VerdictCase{"rule r floor(neg(x[n])) => neg(floor(x))", Verdict::kRefuted},
        VerdictCase{"rule r cast(cast(x: f32[n], to=i64), to=f32) => x", Verdict::kRefuted}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, Constants,
    ::testing::Values(
        VerdictCase{"rule r less(mul(iota(shape=[n], axis=0, dtype=i64), iota(shape=[n], axis=0, dtype=i64)), "
                    "0: i64[n]) => 0: bool[n]",
                    Verdict::kProved},
        // Eighth powers of positions wrap around from 237 on.
        VerdictCase{"rule r let i = iota(shape=[n], axis=0, dtype=i64) in let p = mul(i, i) in let q = mul(p, p) in "
                    "less(mul(q, q), 0: i64[n]) => 0: bool[n]",
                    Verdict::kUnknown},
        // 16^16 is 2^64.
        VerdictCase{"rule r equal(x: i64[n], x) => less(0: i64[n], "
                    "scalar(n * n * n * n * n * n * n * n * n * n * n * n * n * n * n * n): i64[n])",
                    Verdict::kUnknown}));

TEST(Constants, AWitnessHasTheNumbersOfItsInputs) {
  EXPECT_THAT(Prove("rule r sub(add(x[n], 16777218), 16777216) => add(x, 1)").witness,
              ::testing::HasSubstr("= [16777218]"));
}

TEST(Constants, BoundsAreSaidWhereTheyAreNeeded) {
  const std::string power = "mul(iota(shape=[n], axis=0, dtype=i64), iota(shape=[n], axis=0, dtype=i64))";
  EXPECT_THAT(Prove("rule r less(" + power + ", 0: i64[n]) => 0: bool[n]").domain,
              ::testing::StartsWith("every size below 2^31;"));
  EXPECT_THAT(Prove("rule r relu(relu(x[n])) => relu(x)").domain, ::testing::StartsWith("every size;"));
}

TEST(Constants, ALawThatCountsAxesIsNotOneOfAnyNumber) {
  EXPECT_TRUE(Prove("rule r relu(relu(x[b..])) => relu(x)").every_rank);
  EXPECT_FALSE(Prove("rule r relu(relu(x[b..])) => relu(x) when rank(x) != 7").every_rank);
  EXPECT_FALSE(Prove("rule r relu(relu(x[b..])) => relu(x) when len(b) < 7").every_rank);
  EXPECT_TRUE(Prove("rule r relu(concat(x[b.., m], y[b.., n], axis=len(b))) "
                    "=> concat(relu(x), relu(y), axis=len(b))")
                  .every_rank);
}

TEST(Constants, ZeroMatchesBothZeros) {
  EXPECT_STREQ(RuleClassName(Prove("rule r sub(x[b..], 0) => x").rule_class), "reassociating");
  EXPECT_STREQ(RuleClassName(Prove("rule r sub(x: i64[n], 0: i64) => x").rule_class), "exact");
}

TEST(Constants, ConditionsThatNothingSatisfiesAreSaid) {
  const RuleVerdict verdict = Prove("rule r relu(relu(x[n])) => relu(x) when n > 4 and n < 3");
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, ::testing::HasSubstr("no sizes and attributes satisfy the conditions"));
  const RuleVerdict tried = Prove("rule r relu(relu(x[n])) => relu(x) when n > 2");
  EXPECT_GT(tried.trials, 0);
  EXPECT_THAT(tried.domain, ::testing::HasSubstr(std::to_string(tried.trials) + " assignments tried"));
}

TEST(Constants, AWitnessHasAllDigits) {
  const RuleVerdict verdict = Prove("rule r add(sub(x: i64[n], 9007199254740992: i64), 9007199254740993: i64) => x");
  ASSERT_TRUE(verdict.counterexample.has_value());
  const auto* left = std::get_if<int64_t>(&verdict.counterexample->lhs);
  const auto* right = std::get_if<int64_t>(&verdict.counterexample->rhs);
  ASSERT_TRUE(left != nullptr && right != nullptr) << verdict.witness;
  EXPECT_EQ(static_cast<uint64_t>(*left) - static_cast<uint64_t>(*right), 1u) << verdict.witness;
}

}  // namespace
}  // namespace rewright
