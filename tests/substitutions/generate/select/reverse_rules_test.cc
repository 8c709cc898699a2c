// Tests which laws are also rules from right to left.
#include "substitutions/generate/select/reverse_rules.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"

namespace rewright::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Marks rules as proved without a proof; reversed rules are proved anew.
std::vector<Rule> Proved(const std::string& text) {
  auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  for (Rule& rule : *rules) {
    rule.proof = ProofRecord{.rule_class = RuleClass::kExact, .instances = 1, .prover = ProverHash()};
  }
  return *std::move(rules);
}

std::vector<std::string> Reversed(const std::string& text, int threads = 1) {
  const auto rules = ReverseRules(Proved(text), {.threads = threads, .rule_limit_s = 20, .prefix = "back-"});
  EXPECT_TRUE(rules.ok()) << rules.status();
  if (!rules.ok()) return {};
  LoadOptions all;
  all.allow_risky = all.allow_finite_only = true;
  std::vector<std::string> laws;
  for (const Rule& rule : *rules) {
    EXPECT_TRUE(RuleSet::FromText(PrintRule(rule), "test", all).ok()) << "a proof that does not hold";
    laws.push_back(PrintLaw(rule));
  }
  return laws;
}

TEST(ReverseRules, WhatIsComputedAtLoadHasToBeAWeight) {
  EXPECT_THAT(Reversed("rule a mul(x, reciprocal(y)) => div(x, y)"),
              ElementsAre("rule back-div\n  div(x, y) => mul(x, reciprocal(y))\n  when weight(y)\n"));
  EXPECT_THAT(Reversed("rule a sub(sub(x[n, m], y[m]), z[n, 1]) => sub(sub(x, z), y)"),
              ElementsAre("rule back-sub-of-sub\n  sub(sub(x[n, m], z[n, 1]), y[m]) => sub(sub(x, y), z)\n"
                          "  when weight(x) and weight(y)\n"));
}

TEST(ReverseRules, LessWorkAtSomeSizesNeedsNoWeights) {
  EXPECT_THAT(Reversed("rule a matmul(mul(x[m, k], s[]), y[k, n]) => mul(matmul(x, y), s)"),
              ElementsAre("rule back-mul-of-matmul\n  mul(matmul(x[m, k], y[k, n]), s[]) => matmul(mul(x, s), y)\n"));
}

TEST(ReverseRules, KernelsOfConvolutionsAreWeights) {
  EXPECT_THAT(
      Reversed(
          "rule a conv2d(x[n, c, h, w], mul(y[o, c, r, s], transpose(z[1, o, 1, 1], perm=[1, 0, 2, 3])), groups=1, "
          "attrs=?c) => mul(conv2d(x, y, groups=1, attrs=?c), z)"),
      ElementsAre("rule back-mul-of-conv2d\n"
                  "  mul(conv2d(x[n, c, h, w], y[o, c, r, s], groups=1, attrs=?c), z[1, o, 1, 1])\n"
                  "  => conv2d(x, mul(y, transpose(z, perm=[1, 0, 2, 3])), groups=1, attrs=?c)\n"));
  // Read backwards, the rule would split one convolution into two.
  EXPECT_THAT(Reversed("rule a add(conv2d(x[n, c, h, w], y[o, c, r, s], groups=1, attrs=?c), "
                       "conv2d(z[n, d, h, w], u[o, d, r, s], groups=1, attrs=?c)) "
                       "=> conv2d(concat(x, z, axis=1), concat(y, u, axis=1), groups=1, attrs=?c)"),
              IsEmpty());
}

TEST(ReverseRules, LeavesOutWhatGainsNothingOrIsThereAlready) {
  EXPECT_THAT(Reversed("rule saves relu(relu(x)) => relu(x)"), IsEmpty());
  EXPECT_THAT(Reversed("rule saves concat(relu(x[n]), relu(y[m]), axis=0) => relu(concat(x, y, axis=0))\n"), IsEmpty());
  // Only expansions make one order cheaper than another.
  EXPECT_THAT(Reversed("rule a relu(mul(x, relu(y))) => mul(relu(x), relu(y))"), IsEmpty());
  EXPECT_THAT(Reversed("rule exchanges add(x[n], add(y[n], z[n])) => add(y, add(x, z))"), IsEmpty());
  EXPECT_THAT(Reversed("rule merges { matmul(x[m, k], y[k, n]), matmul(x, z[k, l]) } "
                       "=> split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n, l])"),
              IsEmpty());
  EXPECT_THAT(Reversed("rule right matmul(matmul(x[m, k], y[k, l]), z[l, n]) => matmul(x, matmul(y, z))\n"
                       "rule left matmul(x[m, k], matmul(y[k, l], z[l, n])) => matmul(matmul(x, y), z)\n"),
              IsEmpty());
}

TEST(ReverseRules, OfTwoThatDoTheSameTheFirstIsTaken) {
  const std::string two =
      "rule a mul(x, reciprocal(y)) => div(x, y)\nrule b mul(u[n], reciprocal(v[n])) => div(u, v)\n";
  EXPECT_EQ(Reversed(two).size(), 1);
  EXPECT_EQ(Reversed(two), Reversed(two, 2));
}

TEST(ReverseRules, ARuleWithoutAProofIsAnError) {
  const auto rules = ParseRules("rule a mul(x, reciprocal(y)) => div(x, y)", "test");
  ASSERT_TRUE(rules.ok());
  EXPECT_EQ(ReverseRules(*rules, {}).status().message(), "rule a is not proved");
}

}  // namespace
}  // namespace rewright::generate
