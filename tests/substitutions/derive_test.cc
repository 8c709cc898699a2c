#include "substitutions/egraph/derive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const CompiledRule> Compile(const Rule& rule) {
  auto compiled = CompileRule(rule, RuleUse::kProof);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *compiled;
}

std::vector<Rule> Parse(const std::string& text) {
  auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  return *rules;
}

std::vector<DirectedRule> SetOf(const std::string& text, bool both_ways = true) {
  std::vector<std::shared_ptr<const Matcher>> matchers;
  for (const Rule& rule : Parse(text)) matchers.push_back(std::make_shared<const Matcher>(*CompileRule(rule)));
  return DirectedRules(matchers, both_ways);
}

Derivation DeriveFrom(const std::vector<DirectedRule>& set, const std::string& goal) {
  auto derivation = Derive(*Compile(Parse(goal)[0]), set);
  EXPECT_TRUE(derivation.ok()) << derivation.status();
  return derivation.ok() ? *derivation : Derivation();
}

constexpr char kConcat[] =
    "rule relu-of-concat relu(concat(x[a.., p, c..], y[a.., q, c..], axis=len(a)))\n"
    "  => concat(relu(x), relu(y), axis=len(a))\n"
    "rule relu-of-relu relu(relu(x)) => relu(x)\n";

TEST(DeriveTest, WhatFollowsIsDerivedAtSeveralInstances) {
  const Derivation derived = DeriveFrom(SetOf(kConcat, /*both_ways=*/false),
                                        "rule g relu(concat(relu(x[n, p]), y[n, q], axis=1))\n"
                                        "  => relu(concat(x, relu(y), axis=1))");
  EXPECT_TRUE(derived.derived);
  EXPECT_EQ(derived.instances, 3);
  EXPECT_EQ(derived.end, SaturationEnd::kDone);
  EXPECT_GT(derived.uses[0], 0);
  EXPECT_GT(derived.uses[1], 0);
}

TEST(DeriveTest, WhatDoesNotFollowIsMissingAtAnInstance) {
  const Derivation missing = DeriveFrom(SetOf(kConcat), "rule g neg(neg(x[n])) => x");
  EXPECT_FALSE(missing.derived);
  EXPECT_EQ(missing.end, SaturationEnd::kSaturated);
  EXPECT_THAT(missing.missing, HasSubstr("n="));
}

TEST(DeriveTest, EquationsAreReadBothWays) {
  const char* set = "rule r exp(add(x[n], y[n])) => mul(exp(x), exp(y))";
  const char* goal = "rule g mul(mul(exp(x[n]), exp(y[n])), exp(z[n])) => mul(exp(x), mul(exp(y), exp(z)))";
  const std::string associate = "\nrule a add(add(x[n], y[n]), z[n]) => add(x, add(y, z))";
  EXPECT_FALSE(DeriveFrom(SetOf(set + associate, /*both_ways=*/false), goal).derived);
  EXPECT_TRUE(DeriveFrom(SetOf(set + associate), goal).derived);
  EXPECT_FALSE(DeriveFrom(SetOf(set), goal).derived);
}

TEST(DeriveTest, ConditionsOfTheSetMustHold) {
  const char* conditional = "rule r concat(x[n, p], y[n, q], axis=1) => concat(y, x, axis=1) when p == 7 and q == 7";
  EXPECT_FALSE(DeriveFrom(SetOf(conditional),
                          "rule g concat(x[n, p], y[n, q], axis=1) => concat(y, x, axis=1) "
                          "when p == q")
                   .derived);
  const char* weights = "rule r neg(add(x[n], w[n])) => sub(neg(x), w) when weight(w)";
  EXPECT_TRUE(DeriveFrom(SetOf(weights), "rule g neg(add(x[n], w[n])) => sub(neg(x), w) when weight(w)").derived);
  EXPECT_FALSE(DeriveFrom(SetOf(weights), "rule g neg(add(x[n], w[n])) => sub(neg(x), w)").derived);
}

TEST(DeriveTest, OutputsThatShareNothingAreAGoalTooAndAllMustMeet) {
  EXPECT_TRUE(
      DeriveFrom(SetOf(kConcat), "rule g { relu(relu(x[n])), relu(relu(y[m])) } => { relu(x), relu(y) }").derived);
  EXPECT_FALSE(DeriveFrom(SetOf(kConcat), "rule g { relu(relu(x[n])), neg(neg(y[m])) } => { relu(x), y }").derived);
}

TEST(DeriveTest, AGoalWithoutInstancesIsAnError) {
  const auto derivation = Derive(*Compile(Parse("rule g relu(relu(x[n])) => relu(x) when n >= 5000")[0]), {});
  ASSERT_FALSE(derivation.ok());
  EXPECT_THAT(std::string(derivation.status().message()), HasSubstr("rule g: found no sizes at which it applies"));
}

class ShippedRules : public ::testing::Test {
 protected:
  ShippedRules() {
    auto set = RuleSet::FromFiles({Path("substitutions/rules/core.rules"), Path("substitutions/rules/laws.rules")});
    EXPECT_TRUE(set.ok()) << set.status();
    rules_ = DirectedRules(set->matchers(), /*both_ways=*/true);
    index_ = *std::move(set);
  }
  static std::string Path(const std::string& file) { return absl::StrCat(REWRIGHT_SOURCE_DIR, "/", file); }

  RuleSet index_;
  std::vector<DirectedRule> rules_;
};

TEST_F(ShippedRules, EachDerivesItself) {
  for (const auto& matcher : index_.matchers()) {
    const auto derivation = Derive(matcher->rule(), rules_);
    ASSERT_TRUE(derivation.ok()) << derivation.status();
    EXPECT_TRUE(derivation->derived) << matcher->rule().name() << " at " << derivation->missing;
  }
}

TEST_F(ShippedRules, FalseRulesAreNotDerived) {
  int goals = 0;
  for (const char* file : {"tests/cases/rules/false.rules", "tests/verifier/taso_axioms.rules"}) {
    auto rules = ReadRules(Path(file));
    ASSERT_TRUE(rules.ok()) << rules.status();
    for (const Rule& rule : *rules) {
      if (rule.expect != "refuted") continue;
      ++goals;
      const auto derivation = Derive(*Compile(rule), rules_);
      EXPECT_FALSE(derivation.ok() && derivation->derived) << file << " " << rule.name;
    }
  }
  EXPECT_GT(goals, 20);
}

}  // namespace
}  // namespace rewright
