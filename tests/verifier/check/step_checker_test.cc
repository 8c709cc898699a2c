// The checker of steps takes steps that are right, refuses steps that are not, and finds nothing in the proofs of
// rules.
#include "verifier/check/step_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/recorded_list.h"
#include "tests/verifier/rules_util.h"
#include "verifier/integer/context.h"
#include "verifier/prove/elements.h"
#include "verifier/prove_rule.h"
#include "verifier/smt/solver.h"

namespace rewright {
namespace {

using verifier::Context;
using verifier::Guard;
using verifier::Law;
using verifier::NormalForm;
using verifier::Poly;
using verifier::Substitution;
using verifier::Term;
using verifier::Var;

// Sizes n and d, a sum over v of x[v], and a checker.
class StepCheckerTest : public ::testing::Test {
 protected:
  Poly V(Var v) { return Poly::Of(v); }
  Term Sum(const Guard& guard, const std::vector<Var>& bound, const Poly& at) {
    return {1, bound, guard, {verifier::MakeRead(ctx_, {"x@0", false, false}, {at})}};
  }
  bool Refused() { return !checker_.report().refused.empty(); }
  bool Settled() { return !Refused() && checker_.report().open.empty() && checker_.report().steps > 0; }

  verifier::ProofSession session_{.work_limit_s = verifier::kNoLimit};
  Context ctx_{&session_, {}, 1};
  StepChecker checker_;
  const Var n_ = ctx_.NewParam("n", 1), d_ = ctx_.NewParam("d", 1);
  const Var v_ = ctx_.NewLocal("v"), u_ = ctx_.NewLocal("u"), i_ = ctx_.NewRanged("i", Poly(), Poly::Of(n_));
};

TEST_F(StepCheckerTest, OnePointRule) {
  const Term before = Sum(Guard::And(Guard::Eq(V(v_) - V(i_)), Guard::InRange(V(v_), Poly(), V(n_))), {v_}, V(v_));
  Substitution s;
  s.Set(v_, V(i_));
  checker_.Resummed(ctx_, Law::kOnePoint, before, Sum(Guard::True(), {}, V(i_)), s, {});
  EXPECT_TRUE(Settled());
  // This step drops the condition that i is below n - 1, which does not follow.
  const Term shorter =
      Sum(Guard::And(Guard::Eq(V(v_) - V(i_)), Guard::InRange(V(v_), Poly(), V(n_) - Poly(1))), {v_}, V(v_));
  checker_.Resummed(ctx_, Law::kOnePoint, shorter, Sum(Guard::True(), {}, V(i_)), s, {});
  EXPECT_TRUE(Refused());
}

TEST_F(StepCheckerTest, ChangeOfVariablesMustBeABijection) {
  const Term before = Sum(Guard::InRange(V(v_), Poly(), V(n_)), {v_}, V(v_));
  Substitution forward, backward;
  forward.Set(v_, V(n_) - Poly(1) - V(u_));
  backward.Set(u_, V(n_) - Poly(1) - V(v_));
  const Term reversed = Sum(Guard::InRange(V(u_), Poly(), V(n_)), {u_}, V(n_) - Poly(1) - V(u_));
  checker_.Resummed(ctx_, Law::kAlignment, before, reversed, forward, backward);
  EXPECT_TRUE(Settled());
  // u = v div 2 takes two points to one.
  const Term doubled = Sum(Guard::InRange(V(u_), Poly(), V(n_)), {u_}, V(u_) * Poly(2));
  forward.Set(v_, V(u_) * Poly(2));
  backward.Set(u_, ctx_.FloorDiv(V(v_), Poly(2)));
  checker_.Resummed(ctx_, Law::kAlignment, before, doubled, forward, backward);
  EXPECT_TRUE(Refused());
}

TEST_F(StepCheckerTest, RangesOfWhatIsBoundAreNotKnown) {
  // The condition that states a range may not go because of the range.
  const Var ranged = ctx_.NewRanged("r", Poly(), V(n_));
  const Term before = Sum(Guard::InRange(V(ranged), Poly(), V(n_)), {ranged}, V(ranged));
  const Term after = Sum(Guard::Ge(V(ranged)), {ranged}, V(ranged));
  checker_.Resummed(ctx_, Law::kGuard, before, after, {}, {});
  EXPECT_TRUE(Refused());
}

TEST_F(StepCheckerTest, Counting) {
  const Term before = Sum(Guard::InRange(V(v_), V(i_), V(i_) + V(n_)), {v_}, V(i_));
  Term after = Sum(Guard::True(), {}, V(i_));
  after.atoms = before.atoms;
  after.atoms.push_back(verifier::MakeIntAtom(ctx_, V(n_)));
  checker_.Counted(ctx_, before, after, v_, V(n_));
  EXPECT_TRUE(Settled());
  after.atoms.back() = verifier::MakeIntAtom(ctx_, V(n_) - Poly(1));
  checker_.Counted(ctx_, before, after, v_, V(n_) - Poly(1));
  EXPECT_TRUE(Refused());
}

// Two sums over six variables, which stand in the same places but in another order among those that are bound.
TEST_F(StepCheckerTest, EqualTermsWithManyVariables) {
  std::vector<Var> bound[2];
  std::vector<Poly> at[2];
  for (int i = 0; i < 6; ++i) {
    for (int k : {0, 1}) {
      bound[k].push_back(ctx_.NewLocal("b"));
      at[k].push_back(V(bound[k].back()));
    }
  }
  std::rotate(bound[1].begin(), bound[1].begin() + 2, bound[1].end());
  NormalForm parts;
  for (int k : {0, 1}) {
    Guard guard = Guard::True();
    for (int i = 0; i < 6; ++i) guard = Guard::And(guard, Guard::InRange(at[k][i], Poly(), V(n_) + Poly(i)));
    parts.push_back({1, bound[k], guard, {verifier::MakeRead(ctx_, {"x@0", false, false}, at[k])}});
  }
  NormalForm sum = {parts[0]};
  sum[0].coef = 2;
  checker_.Collected(ctx_, parts, {0, 0}, sum);
  EXPECT_TRUE(Settled());
  // One range is another.
  parts[1].guard = Guard::And(parts[1].guard, Guard::InRange(at[1][3], Poly(), V(n_) - Poly(1)));
  checker_.Collected(ctx_, parts, {0, 0}, sum);
  EXPECT_TRUE(Refused());
}

// Every term of a sum that is told to be zero is in one class, whose coefficients cancel, or in the rest, which is
// computed.
TEST_F(StepCheckerTest, SumsThatAreZero) {
  const Term x = Sum(Guard::True(), {}, V(i_));
  const auto times = [&](int64_t coef) {
    Term t = x;
    t.coef = coef;
    return t;
  };
  ctx_.samples.push_back({{n_, 5}, {d_, 2}});
  const NormalForm sum = {times(2), times(-3), times(1)};
  const auto at = [&](size_t place) { return verifier::MovedTerm{place, sum[place], {}, {}}; };
  checker_.Zero(ctx_, {}, sum, {{at(0), at(1), at(2)}});
  EXPECT_TRUE(Settled());
  EXPECT_EQ(checker_.report().joint, 0);
  checker_.Zero(ctx_, {}, sum, {});
  EXPECT_TRUE(Settled());
  EXPECT_EQ(checker_.report().joint, 1);
  // A term that no class has, one that is met twice, and one that is not there.
  checker_.Zero(ctx_, {}, {sum[0], sum[1], sum[2], sum[2]}, {{at(0), at(1), at(2)}});
  EXPECT_EQ(checker_.report().refused.size(), 1u);
  checker_.Zero(ctx_, {}, sum, {{at(0), at(1), at(2)}, {at(2)}});
  EXPECT_EQ(checker_.report().refused.size(), 2u);
  checker_.Zero(ctx_, {}, {sum[0], sum[1]}, {{at(0), at(1), at(2)}});
  EXPECT_GT(checker_.report().refused.size(), 2u);
}

TEST_F(StepCheckerTest, QuotientsAndDecisions) {
  checker_.Divided(ctx_, V(n_) * V(d_) + V(d_) - Poly(1), V(d_), V(n_));
  checker_.Decided(ctx_, Law::kIndex, {}, {Guard::Ge(V(n_) * V(d_) - V(n_))}, {});
  EXPECT_TRUE(Settled());
  checker_.Divided(ctx_, V(n_) * V(d_) + V(d_), V(d_), V(n_));
  EXPECT_EQ(checker_.report().refused.size(), 1u);
  checker_.Decided(ctx_, Law::kIndex, {}, {Guard::Ge(V(n_) - V(d_))}, {});
  EXPECT_EQ(checker_.report().refused.size(), 2u);
}

// No solver settles these as they stand: quotients by products of sizes, bounds of flattened positions.
TEST_F(StepCheckerTest, ProductsOfSizes) {
  const Poly m = V(ctx_.NewParam("m", 1)), rows = V(n_) * V(d_), all = rows * m;
  const Poly flat = V(ctx_.NewRanged("f", Poly(), all * V(n_)));
  const Poly coarse = ctx_.FloorDiv(flat, all), fine = ctx_.FloorDiv(flat, rows);
  checker_.Divided(ctx_, fine, m, coarse);
  checker_.Decided(ctx_, Law::kIndex, {}, {Guard::InRange(coarse, Poly(), V(n_))}, {});
  checker_.Decided(ctx_, Law::kIndex, {}, {Guard::InRange(fine - m * coarse, Poly(), m)}, {});
  EXPECT_TRUE(Settled());
  checker_.Decided(ctx_, Law::kIndex, {}, {Guard::InRange(fine - m * coarse, Poly(), V(d_))}, {});
  EXPECT_TRUE(Refused());
}

TEST_F(StepCheckerTest, LawsOfFunctionsAreComputed) {
  const NormalForm x = {Sum(Guard::True(), {}, V(i_))};
  ctx_.samples.push_back({{n_, 5}, {d_, 2}});
  NormalForm twice = x;
  twice[0].coef = 2;
  const auto of = [&](const char* fn, const NormalForm& arg) {
    Term t;
    t.atoms = {verifier::MakeFnAtom(ctx_, fn, {arg})};
    return t;
  };
  Term square = of("exp", x);
  square.atoms.push_back(square.atoms[0]);
  checker_.Equal(ctx_, Law::kFunction, Guard::True(), {of("exp", twice)}, {square});
  EXPECT_TRUE(Settled());
  checker_.Equal(ctx_, Law::kFunction, Guard::True(), {of("exp", twice)}, {of("exp", x)});
  EXPECT_TRUE(Refused());
}

// The checker knows neither the assumptions that rules make of indices that are elements, nor the results of opaque
// operators.
TEST_F(StepCheckerTest, WrongStepsAboutElementsAreOpen) {
  const Poly element = verifier::IndexOfElement(ctx_, {Sum(Guard::True(), {}, V(i_))});
  checker_.Decided(ctx_, Law::kIndex, {}, {Guard::Ge(element)}, {});
  checker_.Decided(ctx_, Law::kIndex, {}, {Guard::Ge(ctx_.FloorDiv(element, V(n_)))}, {});
  Term whole = Sum(Guard::True(), {}, V(i_));
  whole.atoms = {verifier::MakeFnAtom(
      ctx_, "opaque", {{{1, {}, Guard::True(), {verifier::MakeWholeValue(ctx_, {{{}, Guard::True(), {whole}}})}}}})};
  checker_.Vanished(ctx_, whole);
  EXPECT_FALSE(Refused());
  EXPECT_THAT(checker_.report().open, ::testing::UnorderedElementsAre(::testing::Pair("decision (index)", 2),
                                                                      ::testing::Pair("empty guard", 1)));
  const LawSteps& decided = checker_.report().by_law.at(Law::kIndex);
  EXPECT_EQ(decided.steps, 2);
  EXPECT_EQ(decided.open, 2);
  EXPECT_EQ(decided.excused, 2);
  // A function that only has the name is no element.
  Term named = Sum(Guard::True(), {}, V(i_));
  named.atoms = {verifier::MakeFnAtom(ctx_, "value", {{named}})};
  checker_.Vanished(ctx_, named);
  EXPECT_TRUE(Refused());
}

// The first refusal while an attempt at the rule's last instance is told; "" where there is none. No counterexample is
// looked for.
std::string RefusedSizes(const std::string& law, int least = 0) {
  const auto rules = ParseRules(law, "law");
  EXPECT_TRUE(rules.ok()) << rules.status();
  const auto instances = Instances(**CompileRule(rules->front(), RuleUse::kProof));
  EXPECT_TRUE(instances.ok()) << instances.status();
  RuleInstance instance = instances->back();
  StepChecker checker;
  checker.Begin(instance, {});
  if (least > 0) {  // that the first size is no less is taken for given
    verifier::QueryCache query_cache;
    verifier::ProofSession session{
        .work_limit_s = verifier::kNoLimit, .query_cache = &query_cache, .observer = &checker};
    Context ctx{&session, {}, 1};
    const verifier::Solver solver(&ctx);
    verifier::Elements elements(&ctx, instance);
    ctx.SetFacts({Guard::Ge(elements.Shape(instance.lhs[0])[0] - Poly(least))});
    const std::vector<Poly> at = {Poly()};
    checker.Composed(ctx, instance.lhs[0].node, 0, at, elements.Element(instance.lhs[0], at));
  }
  return checker.report().refused.empty() ? "" : checker.report().refused[0];
}

TEST(StepChecker, SeesSizesAtWhichTheRightSideIsNotLegal) {
  EXPECT_EQ(RefusedSizes("rule r add(x[n], y[n]) => add(y, x)"), "");
  EXPECT_THAT(RefusedSizes("rule r relu(x[n, m]) => reshape(x, shape=[n, m + 1])"), ::testing::HasSubstr("reshape: "));
  EXPECT_THAT(RefusedSizes("rule r slice(x[n], starts=[?a], stops=[?b]) => slice(x, starts=[?a - 1], stops=[?b - 1])"),
              ::testing::HasSubstr("slice: "));
  EXPECT_THAT(RefusedSizes("rule r transpose(x[n, m], perm=[1, 0]) => x"), ::testing::HasSubstr("different types"));
}

TEST(StepChecker, SeesFactsThatDoNotHold) {
  EXPECT_EQ(RefusedSizes("rule r relu(x[n]) => relu(relu(x))", 1), "");
  EXPECT_THAT(RefusedSizes("rule r relu(x[n]) => relu(relu(x))", 2), ::testing::HasSubstr("without the fact"));
}

// Steps about positions and sizes that are larger than those at which rules are looked at.
TEST(StepChecker, ComputesStepsAtSizesThatHaveWhatTheyAreAbout) {
  const auto rules = ParseRules("rule r relu(x[n]) => relu(relu(x))", "f");
  const RuleInstance instance = Instances(**CompileRule(rules->front(), RuleUse::kProof))->back();
  verifier::QueryCache query_cache;
  verifier::ProofSession session{.work_limit_s = verifier::kNoLimit, .query_cache = &query_cache};
  Context ctx{&session, {}, 1};
  verifier::Elements elements(&ctx, instance);
  const Poly n = elements.Shape(instance.lhs[0])[0];
  const Var q = ctx.NewRanged("q", Poly(), n);
  const auto at = [&](int64_t digit) { return std::vector<Poly>{Poly(12) * Poly::Of(q) + Poly(digit)}; };
  const auto element = [&](int64_t digit) { return elements.Element(instance.lhs[0], at(digit)); };
  const auto composed = [&](int64_t digit, const NormalForm& form) {
    StepChecker checker;
    checker.Begin(instance, {});
    checker.Composed(ctx, instance.lhs[0].node, 0, at(digit), form);
    return std::pair(checker.report().by_value, checker.report().refused.size());
  };
  EXPECT_EQ(composed(11, element(11)), std::pair(int64_t{1}, size_t{0}));
  EXPECT_EQ(composed(11, element(10)), std::pair(int64_t{0}, size_t{1}));
  const auto equal = [&](const NormalForm& before, const NormalForm& after) {
    StepChecker checker;
    checker.Begin(instance, {});
    checker.Equal(ctx, Law::kFunction, Guard::Ge(n - Poly(20)), before, after);
    return std::pair(checker.report().by_value, checker.report().refused.size());
  };
  NormalForm guarded = element(0);
  for (Term& t : guarded) t.guard = Guard::And(t.guard, Guard::Ge(n - Poly(19)));
  EXPECT_EQ(equal(element(0), guarded), std::pair(int64_t{1}, size_t{0}));
  EXPECT_EQ(equal(element(1), guarded), std::pair(int64_t{0}, size_t{1}));
}

TEST(StepChecker, TakesProofsOfTheShippedRules) {
  const std::vector<Rule> rules = HandWrittenRules();
  Findings findings;
  ForTodaysCases(
      static_cast<int>(rules.size()),
      [&](size_t i) {
        const Rule& rule = rules[i];
        StepChecker checker;
        RuleProofOptions options;
        options.classify = false;
        options.observer = &checker;
        options.limits = rule.proof->domain;
        EXPECT_EQ(ProveRule(rule, options).verdict, Verdict::kProved) << rule.name;
        const CheckedSteps& report = checker.report();
        for (const std::string& refused : report.refused) ADD_FAILURE() << rule.name << ": " << refused;
        EXPECT_GT(report.steps, 0) << rule.name;
        findings[rule.name] =
            report.open.empty() ? "" : "open: " + absl::StrJoin(report.open, ", ", absl::PairFormatter(" "));
      },
      /*part=*/12);
  ExpectRecorded("verifier/lists/step_checker.txt", "steps left open", findings, AllCases());
}

}  // namespace
}  // namespace rewright
