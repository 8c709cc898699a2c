#include "verifier/prove/merged_axes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "verifier/prove_rule.h"
#include "verifier/refute/counterexample.h"

namespace rewright {
namespace {

using verifier::MergedAxesKey;

// Different keys among the rule's instances of ranks up to `max_rank`.
size_t Keys(const std::string& text, int max_rank) {
  const auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  const auto compiled = CompileRule(rules->front());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  DomainLimits limits;
  limits.max_rank = max_rank;
  const auto instances = Instances(**compiled, limits);
  EXPECT_TRUE(instances.ok()) << instances.status();
  std::set<std::string> keys;
  for (const RuleInstance& instance : *instances) keys.insert(MergedAxesKey(instance));
  return keys.size();
}

struct KeyCase {
  const char* rule;
  size_t at_4, at_6;
};

class MergedAxesTest : public ::testing::TestWithParam<KeyCase> {};

TEST_P(MergedAxesTest, AxesThatAreOnlyCarriedAlongAreOne) {
  EXPECT_EQ(Keys(GetParam().rule, 4), GetParam().at_4);
  EXPECT_EQ(Keys(GetParam().rule, 6), GetParam().at_6);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, MergedAxesTest,
    ::testing::Values(
        // No axis, or one.
        KeyCase{"rule r relu(relu(x[b..])) => relu(x)", 2, 2},
        KeyCase{"rule r matmul(x[b.., m, k], add(y[b.., k, n], z[b.., k, n])) => add(matmul(x, y), matmul(x, z))", 2,
                2},
        KeyCase{"rule r softmax(relu(x[b.., n]), axis=len(b)) => softmax(relu(x), axis=len(b))", 2, 2},
        // Axes before and behind.
        KeyCase{"rule r relu(concat(x[a.., p, c..], y[a.., q, c..], axis=len(a)))"
                " => concat(relu(x), relu(y), axis=len(a))",
                4, 4},
        // Sizes that are multiplied are not only carried along.
        KeyCase{"rule r reshape(relu(x[b..]), shape=[prod(b)]) => relu(reshape(x, shape=[prod(b)]))", 5, 7},
        // Neither are axes that part ways.
        KeyCase{"rule r transpose(relu(x[a, b, c]), perm=[1, 0, 2]) => relu(transpose(x, perm=[1, 0, 2]))", 1, 1},
        // Axes whose positions are counted do not merge, either.
        KeyCase{"rule r reverse(relu(x[a, b, c]), axes=[0, 1]) => relu(reverse(x, axes=[0, 1]))", 1, 1}));

// Neighbouring instances that are not the same law must not share a key: (a, b) read as (b, a) is another law than
// (a, b) read as itself, although both have two axes.
TEST(MergedAxesTest, OrderMatters) {
  const std::string law = "rule r relu(transpose(x[a, b], perm=?p)) => transpose(relu(x), perm=?p)";
  EXPECT_EQ(Keys(law, 4), 2u);
}

TEST(MergedAxesTest, VerdictsSayHowRanksAreCovered) {
  const auto verdict = [](const std::string& text) { return ProveRule(ParseRules(text, "test")->front(), {}); };
  const RuleVerdict any = verdict("rule r relu(relu(x[b..])) => relu(x)");
  ASSERT_EQ(any.verdict, Verdict::kProved) << any.reason;
  EXPECT_TRUE(any.every_rank);
  EXPECT_EQ(any.instances, 7);
  EXPECT_EQ(any.proofs, 2);
  EXPECT_NE(any.domain.find("by merged axes: any"), std::string::npos) << any.domain;
  const RuleVerdict each =
      verdict("rule r reshape(relu(x[b..]), shape=[prod(b)]) => relu(reshape(x, shape=[prod(b)]))");
  ASSERT_EQ(each.verdict, Verdict::kProved) << each.reason;
  EXPECT_FALSE(each.every_rank);
  EXPECT_EQ(each.proofs, each.instances);
  EXPECT_NE(each.domain.find("each by itself"), std::string::npos) << each.domain;
}

// A false law at two batch axes is refuted even though with one it is another law: merging hides nothing.
TEST(MergedAxesTest, FalseAtHigherRanksIsStillFound) {
  const auto rules = ParseRules(
      "rule r reduce_sum(x[b.., m, n], axes=[0], keepdims=0) => reduce_sum(transpose(x, perm=[iota(len(b)).., "
      "len(b) + 1, len(b)]), axes=[0], keepdims=0)",
      "test");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(ProveRule(rules->front(), {}).verdict, Verdict::kRefuted);
}

}  // namespace
}  // namespace rewright
