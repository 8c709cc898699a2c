#include "verifier/prove_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/stop.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/verifier/rules_util.h"
#include "verifier/classify/rule_classifier.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RuleVerdict ProveText(const std::string& text) { return ProveRule(RuleOf(text), RuleProofOptions()); }

struct ClassCase {
  const char* rule;
  RuleClass expected;
};

void PrintTo(const ClassCase& c, std::ostream* os) { *os << c.rule; }

class Classes : public ::testing::TestWithParam<ClassCase> {};

TEST_P(Classes, AreFound) {
  const RuleVerdict verdict = ProveText(GetParam().rule);
  ASSERT_EQ(verdict.verdict, Verdict::kProved) << verdict.reason;
  EXPECT_STREQ(RuleClassName(verdict.rule_class), RuleClassName(GetParam().expected));
}

// The class is the same at every seed, though a scalar is a single element and a maximum is rarely a zero.
TEST(RuleClasses, DoNotHangOnTheSeed) {
  const std::pair<const char*, RuleClass> cases[] = {
      {"rule r relu(sub(x[], relu(x))) => add(x, neg(x))", RuleClass::kFiniteOnly},
      {"rule r add(x[], sub(y[], x)) => y", RuleClass::kNumericallyRisky},
      {"rule r reduce_max(concat(x[m, n], y[k, n], axis=0), axes=[0]) "
       "=> max(reduce_max(y, axes=[0]), reduce_max(x, axes=[0]))",
       RuleClass::kReassociating},
  };
  for (const auto& [text, expected] : cases) {
    const auto rules = ParseRules(text, "test");
    ASSERT_TRUE(rules.ok()) << rules.status();
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      RuleProofOptions options;
      options.seed = seed;
      const RuleVerdict verdict = ProveRule(rules->front(), options);
      ASSERT_EQ(verdict.verdict, Verdict::kProved) << text << ": " << verdict.reason;
      EXPECT_STREQ(RuleClassName(verdict.rule_class), RuleClassName(expected)) << text << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Classes,
    ::testing::Values(
        ClassCase{"rule r relu(relu(x)) => relu(x)", RuleClass::kExact},
        ClassCase{"rule r transpose(transpose(x[m, n], perm=[1, 0]), perm=[1, 0]) => x", RuleClass::kExact},
        ClassCase{"rule r add(add(x[n], y[n]), z[n]) => add(x, add(y, z))", RuleClass::kReassociating},
        ClassCase{"rule r matmul(matmul(x[m, k], y[k, l]), z[l, n]) => matmul(x, matmul(y, z))",
                  RuleClass::kReassociating},
        // Elements must be finite if a zero swallows them or the right side ignores them.
        ClassCase{"rule r mul(x[n], 0[n]) => 0[n]", RuleClass::kFiniteOnly},
        ClassCase{"rule r mul(x[n], 0[n]) => 0[n] when finite(x)", RuleClass::kReassociating},
        // Too large to be measured.
        ClassCase{"rule r mul(x[1, 3, 224, 224], 0) => 0[1, 3, 224, 224]", RuleClass::kFiniteOnly},
        // The logarithm of a negative integer.
        ClassCase{"rule r add(y: f32[n], mul(log(add(cast(x: i64[n], to=f32), 1)), 0)) => y", RuleClass::kFiniteOnly},
        ClassCase{"rule r logical_not(less(x[n], y[n])) => less_equal(y, x)", RuleClass::kFiniteOnly},
        ClassCase{"rule r logical_not(less(x[n], y[n])) => less_equal(y, x) when finite(x) and finite(y)",
                  RuleClass::kExact},
        // Bounds that are equal, and a NaN between them.
        ClassCase{"rule r clamp_grad_x(low[n], x[n], high[n], u[n])"
                  " => let y = max(low, x) in"
                  " let v = where(less(y, high), u, where(less(high, y), 0, mul(u, 0.5))) in"
                  " where(equal(low, high), where(equal(x, low), u, 0),"
                  " where(less(low, x), v, where(less(x, low), 0, mul(v, 0.5))))",
                  RuleClass::kFiniteOnly},
        // An error that grows with the size, and sizes are small where it is measured.
        ClassCase{"rule r reduce_mean(sub(x[m, n], reduce_mean(x, axes=[1])), axes=[1])"
                  " => reduce_sum(sub(x, reduce_mean(x, axes=[1])), axes=[1])",
                  RuleClass::kNumericallyRisky},
        // The left side rounds a number that the right side keeps.
        ClassCase{"rule r add(sub(x[n], y[n]), y) => x", RuleClass::kNumericallyRisky},
        ClassCase{"rule r softmax(add(x[m, n], c[m, 1]), axis=1) => softmax(x, axis=1)", RuleClass::kFiniteOnly},
        ClassCase{"rule r { conv2d(x[n, c, h, w], y[o, c, 1, 1]), conv2d(x, z[p, c, 3, 3], pads=[1, 1, 1, 1]) }"
                  " => split(conv2d(x, concat(pad(y, before=[0, 0, 1, 1], after=[0, 0, 1, 1]), z, axis=0),"
                  " pads=[1, 1, 1, 1]), axis=1, sizes=[o, p])",
                  RuleClass::kFiniteOnly},
        ClassCase{"rule r concat(conv2d(x[n, c, h, w], y[o, c, r, s]), conv2d(x, z[p, c, r, s]), axis=1)"
                  " => conv2d(x, concat(y, z, axis=0))",
                  RuleClass::kExact},
        ClassCase{"rule r reduce_sum(x[n], axes=[0]) => reduce_sum(reverse(x, axes=[0]), axes=[0])",
                  RuleClass::kReassociating},
        // The sides round a near-tie differently, so it falls out differently.
        ClassCase{"rule r less(add(add(x[n], y[n]), z[n]), w[n]) => less(add(x, add(y, z)), w)",
                  RuleClass::kNumericallyRisky},
        ClassCase{"rule r argmax(matmul(x[m, k], mul(y[k, n], s[])), axis=1) => argmax(mul(matmul(x, y), s), axis=1)",
                  RuleClass::kNumericallyRisky},
        ClassCase{"rule r cast(mul(x: f32[n], add(y: f32[n], z: f32[n])), to=i64)"
                  " => cast(add(mul(x, y), mul(x, z)), to=i64)",
                  RuleClass::kNumericallyRisky},
        ClassCase{"rule r floor(reduce_sum(reverse(x[n], axes=[0]), axes=[0])) => floor(reduce_sum(x, axes=[0]))",
                  RuleClass::kNumericallyRisky},
        ClassCase{"rule r argmax(cast(x: f32[m, n], to=f16), axis=1) => argmax(x, axis=1)",
                  RuleClass::kNumericallyRisky},
        // Positions are exact in 16 bits up to sizes that no sample has.
        ClassCase{"rule r cast(iota(shape=[n], axis=0, dtype=f16), to=f32) => iota(shape=[n], axis=0, dtype=f32)",
                  RuleClass::kReassociating},
        ClassCase{"rule r argmax(iota(shape=[n], axis=0, dtype=f16), axis=0)"
                  " => argmax(iota(shape=[n], axis=0, dtype=f32), axis=0)",
                  RuleClass::kNumericallyRisky},
        ClassCase{"rule r cast(iota(shape=[n], axis=0, dtype=i32), to=f32) => iota(shape=[n], axis=0, dtype=f32)",
                  RuleClass::kExact},
        // The same rounded numbers, moved.
        ClassCase{"rule r transpose(less(add(x[m, n], y[m, n]), z[m, n]), perm=[1, 0])"
                  " => less(add(transpose(y, perm=[1, 0]), transpose(x, perm=[1, 0])), transpose(z, perm=[1, 0]))",
                  RuleClass::kExact},
        ClassCase{"rule r reshape(less(matmul(x[m, k], y[k, n]), 0), shape=[n * m])"
                  " => less(reshape(matmul(x, y), shape=[n * m]), 0) when finite(x)",
                  RuleClass::kExact},
        ClassCase{"rule r less(neg(x[n]), neg(y[n])) => less(y, x)", RuleClass::kExact},
        // Few elements, and many runs.
        ClassCase{"rule r add(add(x[], y[]), z[]) => add(x, add(y, z))", RuleClass::kReassociating},
        ClassCase{"rule r add(x[], y[]) => add(y, x)", RuleClass::kExact},
        // Constants of f64, and sums that f32 and f64 round.
        ClassCase{"rule r add(add(x: f64[n], y: f64[n]), z: f64[n]) => add(x, add(y, z))", RuleClass::kReassociating},
        ClassCase{"rule r mul(x: f64[n], sub(y: f64[n], z: f64[n])) => sub(mul(x, y), mul(x, z))",
                  RuleClass::kNumericallyRisky},
        ClassCase{"rule r relu(x: f64[n]) => cast(cast(relu(x), to=f32), to=f64)", RuleClass::kNumericallyRisky},
        // Some values of f64 are beyond f32.
        ClassCase{"rule r relu(cast(cast(x: f64[n], to=f32), to=f64)) => relu(x)", RuleClass::kFiniteOnly},
        ClassCase{"rule r cast(cast(x: f64[n], to=f32), to=f64) => x", RuleClass::kFiniteOnly},
        ClassCase{"rule r cast(cast(mul(cast(x: f32[n], to=f64), cast(y: f32[n], to=f64)), to=f32), to=f64)"
                  " => mul(cast(x, to=f64), cast(y, to=f64))",
                  RuleClass::kFiniteOnly},
        ClassCase{
            "rule r cast(div(mul(cast(x: f32[n], to=f64), cast(y: f32[n], to=f64)), cast(z: f32[n], to=f64)), to=f32)"
            " => div(mul(x, y), z)",
            RuleClass::kNumericallyRisky},
        ClassCase{"rule r cast(cast(x: f32[n], to=f64), to=f32) => x", RuleClass::kExact},
        // The same bits, since rounding keeps order: no law says so.
        ClassCase{"rule r cast(relu(x: f64[n]), to=f32) => relu(cast(x, to=f32))", RuleClass::kReassociating},
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

// Other random numbers than those that the records were made with: rules recorded as exact keep every bit, and rules
// not recorded as finite-only are finite where their left side is.
TEST(ProveRule, RecordedClassesHoldForOtherNumbers) {
  constexpr uint64_t kSeed = 77;
  int exact = 0, finite = 0;
  std::vector<Rule> rules;
  for (const Rule& rule : HandWrittenRules()) {
    for (Rule& one : OperatorRules(rule, 3)) rules.push_back(std::move(one));
  }
  for (const Rule& rule : rules) {
    ASSERT_TRUE(rule.proof.has_value()) << rule.name;
    const auto compiled = CompileRule(rule);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto instances = Instances(**compiled, SmallLimits(**compiled));
    ASSERT_TRUE(instances.ok()) << instances.status();
    for (int round = 0; round < Cases(10); ++round) {
      RuleClassifier classifier(kSeed + static_cast<uint64_t>(round));
      for (const RuleInstance& instance : *instances) {
        classifier.Note(Inspect(instance));
        classifier.Measure(instance);
      }
      const RuleClass found = classifier.Class(), recorded = rule.proof->rule_class;
      EXPECT_TRUE(recorded != RuleClass::kExact || found == RuleClass::kExact) << rule.name << RuleClassName(found);
      EXPECT_TRUE(recorded != RuleClass::kReassociating || found != RuleClass::kFiniteOnly) << rule.name;
      exact += recorded == RuleClass::kExact;
      finite += recorded == RuleClass::kFiniteOnly;
    }
  }
  EXPECT_GT(exact, 50);
  EXPECT_GT(finite, 0);
}

// However a cancellation is spelled, and whatever the seed of the run.
TEST(ProveRule, ClassesCountCancellation) {
  const std::pair<const char*, RuleClass> cases[] = {
      {"rule r tanh(x[n]) => sub(mul(sigmoid(mul(x, 2)), 2), 1)", RuleClass::kNumericallyRisky},
      {"rule r sigmoid(neg(x[n])) => sub(1[n], sigmoid(x))", RuleClass::kNumericallyRisky},
      {"rule r mul(x[n], add(y[n], z[n])) => add(mul(x, y), mul(x, z))", RuleClass::kNumericallyRisky},
      {"rule r add(mul(x[n], y[n]), mul(x, z[n])) => mul(x, add(y, z))", RuleClass::kReassociating},
      {"rule r matmul(x: f64[m, k], y: f64[k, n]) => cast(matmul(cast(x, to=f32), cast(y, to=f32)), to=f64)",
       RuleClass::kNumericallyRisky},
      {"rule r add(add(x[n], y[n]), z[n]) => add(x, add(y, z))", RuleClass::kReassociating}};
  for (const auto& [text, expected] : cases) {
    const auto rules = ParseRules(text, "text");
    ASSERT_TRUE(rules.ok()) << rules.status();
    for (uint64_t seed : {1, 2, 77}) {
      RuleProofOptions options;
      options.seed = seed;
      const RuleVerdict verdict = ProveRule((*rules)[0], options);
      EXPECT_EQ(verdict.verdict, Verdict::kProved) << text;
      EXPECT_EQ(verdict.rule_class, expected) << text << " seed " << seed << " " << RuleClassName(verdict.rule_class);
    }
  }
}

TEST(ProveRule, RefutesWithSizesAndValues) {
  const RuleVerdict verdict = ProveText("rule r sub(x[n], y[n]) => sub(y, x)");
  EXPECT_EQ(verdict.verdict, Verdict::kRefuted);
  EXPECT_THAT(verdict.witness, Not(IsEmpty()));
  EXPECT_THAT(verdict.domain, IsEmpty());
}

TEST(ProveRule, WhatHidesFromCounterexamplesIsNotProved) {
  const auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/tests/cases/rules/hidden.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->size(), 5u);
  for (const Rule& rule : *rules) {
    EXPECT_NE(ProveRule(rule, RuleProofOptions()).verdict, Verdict::kProved) << rule.name;
  }
}

TEST(ProveRule, SaysAtWhichSizesConstantsHaveElements) {
  const RuleVerdict some =
      ProveText("rule r pad(x[n], before=[0], after=[?a]) => concat(x, 0[?a], axis=0) when ?a >= 0");
  EXPECT_EQ(some.verdict, Verdict::kProved) << some.reason;
  EXPECT_THAT(some.domain, HasSubstr("every size with ?a >= 1;"));
  const RuleVerdict all =
      ProveText("rule r pad(x[n], before=[0], after=[?a]) => concat(x, 0[?a], axis=0) when ?a >= 2");
  EXPECT_EQ(all.verdict, Verdict::kProved) << all.reason;
  EXPECT_THAT(all.domain, HasSubstr("every size;"));
}

TEST(ProveRule, SaysThatConditionsHoldNowhere) {
  const RuleVerdict verdict = ProveText("rule r relu(relu(x[n])) => relu(x) when n div 0 == 1");
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, HasSubstr("no structural values satisfy the conditions"));
}

// Sums of integers wrap around, and the largest of none is the least integer.
TEST(ProveRule, RefutesIntegersAtTheEndsOfTheirType) {
  const RuleVerdict verdict = ProveText("rule r less(x: i64[], add(x, 1: i64[])) => 1: bool[]");
  ASSERT_EQ(verdict.verdict, Verdict::kRefuted) << verdict.reason;
  ASSERT_TRUE(verdict.counterexample.has_value());
  EXPECT_EQ(verdict.counterexample->inputs.at(0).integers, std::vector<int64_t>{INT64_MAX});
  EXPECT_THAT(verdict.witness, HasSubstr("9223372036854775807"));
}

TEST(ProveRule, ARuleThatMayDoNoWorkIsUnknown) {
  RuleProofOptions options;
  options.work_limit_s = 0;
  const RuleVerdict verdict = ProveRule(RuleOf("rule r relu(relu(x)) => relu(x)"), options);
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, HasSubstr("limit of work of 0 s"));
}

TEST(ProveRule, AnInterruptedRuleIsUnknown) {
  const std::atomic<bool> stop{true};
  RuleProofOptions options;
  options.stop = &stop;
  const RuleVerdict verdict = ProveRule(RuleOf("rule r relu(relu(x)) => relu(x)"), options);
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, HasSubstr("interrupted"));
}

// An interrupt may come in a proof, in a class or while the certificate is written: the rule is proved, or interrupted.
TEST(ProveRule, AnInterruptAtAnyMomentIsToldAsOne) {
  const Rule rule = RuleOf(
      "rule r { matmul(x[b.., m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
      "  => split(matmul(x, concat(y, z, axis=1)), axis=len(b) + 1, sizes=[n1, n2])");
  for (int k = 0; k < 60; ++k) {
    std::atomic<bool> stop{false};
    RuleProofOptions options;
    options.certify = true;
    options.stop = &stop;
    std::thread interrupt([&] {
      absl::SleepFor(absl::Microseconds(400) * k);
      stop = true;
    });
    const RuleVerdict verdict = ProveRule(rule, options);
    interrupt.join();
    EXPECT_EQ(verdict.interrupted, verdict.verdict != Verdict::kProved) << k << ": " << verdict.reason;
    EXPECT_EQ(verdict.trouble, "") << k;
  }
}

TEST(Stop, EndsTheSearchOfARule) {
  const Rule rule = RuleOf("rule r relu(relu(x)) => relu(x)");
  RuleProofOptions options;
  EXPECT_EQ(ProveRule(rule, options).verdict, Verdict::kProved);
  const StopScope over(nullptr, absl::Now());
  const RuleVerdict verdict = ProveRule(rule, options);
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_EQ(verdict.trials, 0);
  EXPECT_THAT(verdict.reason, HasSubstr("interrupted"));
}

TEST(Stop, EndsTheMeasurementOfAClass) {
  const auto compiled = CompileRule(RuleOf("rule r add(x, y) => add(y, x)"), RuleUse::kProof);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const std::atomic<bool> stop{true};
  RuleRounding rounding;
  const auto found = ClassifyRule(**compiled, DomainLimits(), /*instances=*/8, /*used_finite_only_step=*/false,
                                  &rounding, /*operators=*/nullptr, &stop);
  EXPECT_TRUE(absl::IsCancelled(found.status())) << found.status();
}

TEST(ProveRule, ARuleThatCannotBeUnderstoodIsUnknown) {
  const RuleVerdict verdict = ProveText("rule r relu(x) => relu(y)");
  EXPECT_EQ(verdict.verdict, Verdict::kUnknown);
  EXPECT_THAT(verdict.reason, HasSubstr("y"));
}

TEST(ProveRule, ItsRecordIsAcceptedByTheLoader) {
  Rule rule = RuleOf("rule r relu(relu(x)) => relu(x)");
  const RuleVerdict verdict = ProveRule(rule, RuleProofOptions());
  ASSERT_EQ(verdict.verdict, Verdict::kProved);
  const auto record = RecordOf(rule, verdict);
  ASSERT_TRUE(record.ok()) << record.status();
  rule.proof = *record;
  EXPECT_TRUE(RuleSet::FromText(PrintRule(rule), "test").ok());
}

// A class that is not known is not recorded as the one that stands for it.
TEST(ProveRule, AVerdictWithATroubleHasNoRecord) {
  const Rule rule = RuleOf("rule r relu(relu(x)) => relu(x)");
  RuleVerdict verdict = ProveRule(rule, RuleProofOptions());
  verdict.trouble = "class: no assignment was found";
  EXPECT_EQ(RecordOf(rule, verdict).status().message(), "rule r: no record: class: no assignment was found");
}

TEST(ConditionsText, JoinsConditions) {
  EXPECT_EQ(ConditionsText(RuleOf("rule r relu(relu(x[m, n])) => relu(x) when m == 2 and n >= 3")),
            "m == 2 and n >= 3");
}

}  // namespace
}  // namespace rewright
