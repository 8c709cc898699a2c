// Counterexamples are shown only when the interpreter confirms them.
#include "verifier/refute/numeric_instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "verifier/refute/counterexample.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

struct Found {
  std::vector<RuleInstance> instances;
  size_t instance = 0;
  Counterexample counterexample;
  std::string Confirm(const std::function<void(Counterexample&)>& change) const {
    Counterexample changed = counterexample;
    change(changed);
    return std::string(ConfirmCounterexample(instances[instance], changed).message());
  }
};

Found Search(const std::string& text) {
  Found found;
  const auto rules = ParseRules(text, "f");
  EXPECT_TRUE(rules.ok()) << rules.status();
  const auto compiled = CompileRule(rules->front());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  DomainLimits limits;
  limits.max_rank = 3;
  found.instances = *Instances(**compiled, limits);
  for (size_t i = 0; i < found.instances.size(); ++i) {
    const auto counterexample = verifier::CounterexampleSearch(found.instances[i], 1).Run(100, 5);
    if (!counterexample) continue;
    found.instance = i;
    found.counterexample = *counterexample;
    return found;
  }
  ADD_FAILURE() << "no counterexample of " << text;
  return found;
}

const auto kNothing = [](Counterexample&) {};

TEST(CounterexampleSearch, RunsAtGivenAssignments) {
  const auto rules =
      ParseRules("rule r reshape(x[m, n], shape=[n * m]) => reshape(transpose(x, perm=[1, 0]), shape=[n * m])", "f");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto compiled = CompileRule(rules->front(), RuleUse::kProof);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const std::vector<RuleInstance> instances = *Instances(**compiled);
  ASSERT_FALSE(instances.empty());
  verifier::CounterexampleSearch search(instances[0], 1);
  EXPECT_FALSE(search.RunAt({}));
  EXPECT_FALSE(search.RunAt({{1, 4}, {4, 1}})) << "rows alone are the same after a transposition";
  EXPECT_TRUE(search.RunAt({{1, 4}, {3, 4}}));
}

TEST(ConfirmCounterexample, Elements) {
  const Found found = Search("rule r sub(x[n], y[n]) => sub(y, x)");
  ASSERT_EQ(found.counterexample.obligation, Obligation::kElements);
  EXPECT_EQ(found.Confirm(kNothing), "");
  EXPECT_THAT(found.Confirm([](Counterexample& c) { c.lhs = RealOf(c.lhs) + 1; }), HasSubstr("it computes"));
  EXPECT_THAT(found.Confirm([](Counterexample& c) { c.rhs = c.lhs; }), HasSubstr("it computes"));
  EXPECT_THAT(found.Confirm([](Counterexample& c) { c.inputs[0].values = c.inputs[1].values; }),
              HasSubstr("it computes"));
}

TEST(ConfirmCounterexample, Shapes) {
  const Found found = Search("rule r transpose(relu(x[m, n]), perm=[1, 0]) => relu(x)");
  ASSERT_EQ(found.counterexample.obligation, Obligation::kShape);
  EXPECT_EQ(found.Confirm(kNothing), "");
  EXPECT_THAT(found.Confirm([](Counterexample& c) {
    for (auto& s : c.symbols) s.second = 2;
  }),
              HasSubstr("the shapes are the same"));
}

TEST(ConfirmCounterexample, RightSidesThatAreNotLegal) {
  const Found found = Search("rule r relu(x[m, n]) => reshape(relu(x), shape=[m, m])");
  ASSERT_EQ(found.counterexample.obligation, Obligation::kWellFormed);
  EXPECT_EQ(found.Confirm(kNothing), "");
  EXPECT_THAT(found.Confirm([](Counterexample& c) {
    for (auto& s : c.symbols) s.second = 2;
  }),
              HasSubstr("the right side is legal"));
}

TEST(ConfirmCounterexample, RightSidesThatAreNotLegalWhateverAnAttributeIs) {
  const Found found = Search("rule r leaky_relu(x[n], alpha=?a) => leaky_relu(reshape(x, shape=[n + 1]), alpha=?a)");
  ASSERT_EQ(found.counterexample.obligation, Obligation::kWellFormed);
  EXPECT_EQ(found.counterexample.reals.size(), 1u);
  EXPECT_EQ(found.Confirm(kNothing), "");
}

TEST(ConfirmCounterexample, SizesThatTheLeftSideDoesNotAllow) {
  const Found found = Search("rule r sub(x[n], y[n]) => sub(y, x) when n >= 3");
  EXPECT_EQ(found.Confirm(kNothing), "");
  EXPECT_THAT(found.Confirm([](Counterexample& c) { c.symbols[0].second = 2; }),
              HasSubstr("a condition of the rule fails"));
}

// Sizes that conditions tie to one another: a choice far back is to blame for most failures.
TEST(CounterexampleSearch, FindsSizesThatManyConditionsTie) {
  const auto rules = ParseRules(
      "rule r concat(slice(x, starts=?b, stops=?e), slice(x, starts=?c, stops=?d), axis=?i)\n"
      "  => slice(x, starts=?b, stops=?d)\n"
      "  when ?e[?i] == ?c[?i] and replace(?b, [?i], ?c[?i]) == ?c and replace(?e, [?i], ?d[?i]) == ?d\n",
      "f");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto instances = Instances(**CompileRule(rules->front()));
  ASSERT_TRUE(instances.ok()) << instances.status();
  for (RuleInstance instance : *instances) {
    for (const SymbolicNode& node : instance.nodes) {
      for (const ExprPtr& size : node.shapes[0]) instance.conditions.push_back((Index(size) > 0).node());
    }
    verifier::CounterexampleSearch search(instance, 1);
    bool found = false;
    for (int width = 2; width <= 6; ++width) found |= search.DrawWithin(width).has_value();
    EXPECT_TRUE(found) << instance.description;
  }
}

}  // namespace
}  // namespace rewright
