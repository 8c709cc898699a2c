// The second derivation confirms true rules, denies false ones, and says which it gives up.
#include "verifier/check/bounded_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/distinguish.h"
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

// A tenth of the hand-written rules, another one each day, all with REWRIGHT_FULL.
TEST(BoundedCheck, ConfirmsShippedRules) {
  const std::vector<Rule> rules = HandWrittenRules();
  const size_t step = std::getenv("REWRIGHT_FULL") != nullptr ? 1 : 10;
  int confirmed = 0, given_up = 0;
  for (size_t i = FirstOfToday(step); i < rules.size(); i += step) {
    const auto compiled = CompileRule(rules[i]);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto derivation = CheckAtSmallSizes(**compiled);
    ASSERT_TRUE(derivation.ok()) << derivation.status();
    EXPECT_NE(derivation->verdict, BoundedVerdict::kDenied) << rules[i].name << ": " << derivation->reason;
    ++(derivation->verdict == BoundedVerdict::kConfirmed ? confirmed : given_up);
  }
  std::cout << confirmed << " confirmed, " << given_up << " given up\n";
  EXPECT_GE(confirmed, 3 * given_up);
}

// Shipped rules changed at one place: a change that the interpreter sees is never confirmed.
TEST(BoundedCheck, ConfirmsNoFalseMutant) {
  const std::vector<Rule> rules = HandWrittenRules();
  MutationRng rng(20261123);
  BoundedCheckOptions options;
  options.structures = 3;  // all at which the interpreter looks
  options.draws.most_elements = 200;
  options.resource_limit = 200000;
  int denied = 0, confirmed = 0, given_up = 0;
  for (int made = 0; made < Cases(600);) {
    const std::optional<Mutant> mutant = MutateRule(rules[rng() % rules.size()], rng);
    if (!mutant) continue;
    const auto compiled = CompileRule(mutant->rule);
    if (!compiled.ok()) continue;
    std::vector<RuleInstance> instances;
    const absl::Status status = ForEachInstance(**compiled, SmallLimits(**compiled), [&](RuleInstance instance) {
      instances.push_back(std::move(instance));
      return absl::OkStatus();
    });
    if (!status.ok() || instances.empty() || instances.size() > 3) continue;
    bool apart = false;
    for (const RuleInstance& instance : instances) apart = apart || Distinguished(instance, 20, rng).has_value();
    if (!apart) continue;
    ++made;
    const auto derivation = CheckAtSmallSizes(**compiled, options);
    if (!derivation.ok()) continue;
    switch (derivation->verdict) {
      case BoundedVerdict::kConfirmed:
        ++confirmed;
        ADD_FAILURE() << mutant->change << "\n" << PrintLaw(mutant->rule) << derivation->applications;
        break;
      case BoundedVerdict::kDenied: ++denied; break;
      case BoundedVerdict::kGivenUp: ++given_up; break;
    }
  }
  std::cout << denied << " denied, " << given_up << " given up, " << confirmed << " confirmed\n";
  EXPECT_GT(denied, given_up);
}

}  // namespace
}  // namespace rewright
