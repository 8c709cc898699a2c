// The bounded check confirms true rules, denies false ones, and says which it gives up.
#include "verifier/check/bounded/bounded_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/distinguish.h"
#include "tests/support/recorded_list.h"
#include "tests/support/rule_mutation.h"
#include "tests/verifier/rules_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

BoundedCheck Derive(const std::string& text) {
  const auto rules = ParseRules(text, "test.rules");
  EXPECT_TRUE(rules.ok()) << rules.status();
  const auto compiled = CompileRule(rules->at(0));
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  const auto derivation = CheckAtSmallSizes(**compiled);
  EXPECT_TRUE(derivation.ok()) << derivation.status();
  return *derivation;
}

TEST(BoundedCheck, ConfirmsWhatIsTrue) {
  for (const char* text : {
           "rule r  matmul(matmul(x[m, k], y[k, n]), z[n, p]) => matmul(x, matmul(y, z))",
           "rule r  relu(relu(x)) => relu(x)",
           "rule r  transpose(transpose(x[m, n], perm=[1, 0]), perm=[1, 0]) => x",
           "rule r  concat(reduce_sum(x[m, n], axes=[1]), reduce_sum(y[p, n], axes=[1]), axis=0)"
           " => reduce_sum(concat(x, y, axis=0), axes=[1])",
           "rule r  less(neg(x[n]), neg(y[n])) => less(y, x)",
           "rule r  add(x: i64[n], y: i64[n]) => add(y, x)",
           // Powers and the logistic function are expanded by their definitions.
           "rule r  pow(x[n], 3) => mul(mul(x, x), x)",
           "rule r  pow(x[n], -1) => reciprocal(x)",
           "rule r  pow(x[n], 0.5) => sqrt(x)",
           "rule r  div(x[n], add(exp(neg(x)), 1)) => swish(x)",
           // Equal polynomials as operands; numbers that f32 rounds.
           "rule r  tanh(mul(add(x[n], y[n]), z[n])) => tanh(add(mul(x, z), mul(y, z)))",
           "rule r  mul(mul(x[n], 0.5), add(erf(div(x, 1.4142135623730951)), 1)) => gelu(x)",
           // Element by element.
           "rule r  relu(mul(x[m, n], a[m, n])) => mul(relu(x), a) when positive(a)",
           // A reduction that binds nothing.
           "rule r  reduce_sum(x[n], axes=[], keepdims=0) => x",
           "rule r  reduce_max(x[n], axes=[], keepdims=0) => x",
       }) {
    const BoundedCheck derivation = Derive(text);
    EXPECT_EQ(derivation.verdict, BoundedVerdict::kConfirmed) << text << ": " << derivation.reason;
    EXPECT_GT(derivation.applications, 0);
  }
}

TEST(BoundedCheck, DeniesWhatIsFalse) {
  for (const char* text : {
           "rule r  sub(x[n], y[n]) => sub(y, x)",
           "rule r  matmul(x[n, n], y[n, n]) => matmul(y, x)",
           "rule r  relu(neg(x)) => neg(relu(x))",
           "rule r  transpose(x[n, n], perm=[1, 0]) => x",
           "rule r  reduce_max(add(x[m, n], y[m, n]), axes=[1])"
           " => add(reduce_max(x, axes=[1]), reduce_max(y, axes=[1]))",
           "rule r  pow(x[n], 3) => mul(x, x)",
           "rule r  pow(x[n], 0) => x",
           // True of integers without end, false of those that wrap around.
           "rule r  less(add(x: i32[n], z: i32[n]), add(y: i32[n], z)) => less(x, y)",
       }) {
    const BoundedCheck derivation = Derive(text);
    EXPECT_EQ(derivation.verdict, BoundedVerdict::kDenied) << text << ": " << derivation.reason;
  }
}

TEST(BoundedCheck, DeniesARuleThatLostACondition) {
  const BoundedCheck derivation = Derive(kJoinedKernels);
  EXPECT_EQ(derivation.verdict, BoundedVerdict::kDenied) << derivation.applications << " " << derivation.reason;
}

// A literal that f32 rounds is another number in f64; a rule that holds for one of them alone is not confirmed.
TEST(BoundedCheck, ConfirmsNothingThatRoundingDecides) {
  for (const char* text : {
           "rule r  sub(add(x[n], 16777217), 16777216) => add(x, 1)",
           "rule r  mul(mul(x[n], 0.5), add(erf(div(x, 1.4142)), 1)) => gelu(x)",
           "rule r  div(x[n], add(exp(x), 1)) => swish(x)",
       }) {
    EXPECT_NE(Derive(text).verdict, BoundedVerdict::kConfirmed) << text;
  }
}

TEST(BoundedCheck, SaysWhatItGivesUp) {
  const BoundedCheck derivation = Derive("rule r  mul(exp(x[n]), exp(y[n])) => exp(add(x, y))");
  EXPECT_EQ(derivation.verdict, BoundedVerdict::kGivenUp);
  EXPECT_THAT(derivation.reason, HasSubstr("law of a function"));
}

TEST(BoundedCheck, ConfirmsShippedRules) {
  const std::vector<Rule> rules = HandWrittenRules();
  Findings findings;
  ForTodaysCases(static_cast<int>(rules.size()), [&](size_t i) {
    const auto compiled = CompileRule(rules[i]);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto derivation = CheckAtSmallSizes(**compiled);
    ASSERT_TRUE(derivation.ok()) << derivation.status();
    EXPECT_NE(derivation->verdict, BoundedVerdict::kDenied) << rules[i].name << ": " << derivation->reason;
    const bool confirmed = derivation->verdict == BoundedVerdict::kConfirmed;
    findings[rules[i].name] = confirmed ? "" : "given up: " + derivation->reason;
  });
  ExpectRecorded("verifier/lists/bounded_check.txt", "rules given up", findings, AllCases());
}

// Shipped rules changed at one place: a change that the interpreter sees is never confirmed.
TEST(BoundedCheck, ConfirmsNoFalseMutant) {
  constexpr int kWhole = 600, kAttempts = 30;
  constexpr size_t kMostInstances = 3;
  std::vector<Rule> rules;
  std::vector<std::string> names;
  for (const Rule& rule : HandWrittenRules()) {
    const auto compiled = CompileRule(rule);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto instances = Instances(**compiled, SmallLimits(**compiled));
    ASSERT_TRUE(instances.ok()) << instances.status();
    if (instances->size() > kMostInstances) continue;
    rules.push_back(rule);
    names.push_back(rule.name);
  }
  BoundedCheckOptions options;
  options.structures = 3;  // all at which the interpreter looks
  options.draws.most_elements = 200;
  options.resource_limit = 200000;
  Findings findings;
  for (MutantCase& one : MutantsOf(kOneDay, names, kWhole, /*seed=*/20261123)) {
    std::string& found = findings[one.name] = "none";
    for (int attempt = 0; attempt < kAttempts && found == "none"; ++attempt) {
      const std::optional<Mutant> mutant = MutateRule(rules[one.place], one.rng);
      if (!mutant) continue;
      const auto compiled = CompileRule(mutant->rule);
      if (!compiled.ok()) continue;
      const auto instances = Instances(**compiled, SmallLimits(**compiled));
      if (!instances.ok() || instances->empty() || instances->size() > kMostInstances) continue;
      if (std::none_of(instances->begin(), instances->end(), [&](const RuleInstance& instance) {
            return Distinguished(instance, 20, one.rng).has_value();
          })) {
        continue;
      }
      const auto derivation = CheckAtSmallSizes(**compiled, options);
      if (!derivation.ok()) continue;
      EXPECT_NE(derivation->verdict, BoundedVerdict::kConfirmed) << one.name << ": " << mutant->change << "\n"
                                                                 << PrintLaw(mutant->rule) << derivation->applications;
      found = derivation->verdict == BoundedVerdict::kDenied ? "" : "given up: " + mutant->change;
    }
  }
  ExpectRecorded("verifier/lists/bounded_check.txt", "mutants given up", findings, AllCases());
}

}  // namespace
}  // namespace rewright
