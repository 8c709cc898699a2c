#include "substitutions/instance/instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "substitutions/language/rule_parser.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<RuleInstance>> InstancesOf(const std::string& text, const DomainLimits& limits = {}) {
  auto rules = ParseRules(text, "test");
  if (!rules.ok()) return rules.status();
  auto rule = CompileRule(rules->at(0));
  if (!rule.ok()) return rule.status();
  return Instances(**rule, limits);
}

std::string OnlyInstance(const std::string& text) {
  auto instances = InstancesOf(text);
  if (!instances.ok()) return instances.status().ToString();
  return instances->size() == 1 ? PrintInstance(instances->at(0)) : std::to_string(instances->size());
}

TEST(InstancesTest, PacksStandForAnyNumberOfAxes) {
  const auto instances = InstancesOf("rule r relu(relu(x[b..])) => relu(x)");
  ASSERT_TRUE(instances.ok()) << instances.status();
  EXPECT_EQ(instances->size(), 7u);
  EXPECT_EQ(instances->at(3).description, "b..=3");
  EXPECT_EQ(instances->at(3).symbols.size(), 3u);
}

TEST(InstancesTest, StructuralAttributesRunOverTheirValues) {
  DomainLimits limits;
  limits.max_rank = 3;
  const auto instances =
      InstancesOf("rule r transpose(transpose(x, perm=?p), perm=?q) => transpose(x, perm=compose(?p, ?q))", limits);
  ASSERT_TRUE(instances.ok()) << instances.status();
  EXPECT_EQ(instances->size(), 1u + 1 + 4 + 36);
}

TEST(InstancesTest, BroadcastingVariablesHaveTheirUnitsChosen) {
  const auto instances = InstancesOf("rule r mul(x[a, b], y[~ a, b]) => mul(y, x)");
  ASSERT_TRUE(instances.ok()) << instances.status();
  EXPECT_EQ(instances->size(), 1u + 2 + 4);
}

TEST(InstancesTest, SymbolsBindBothSides) {
  EXPECT_EQ(OnlyInstance("rule r { matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
                         "=> split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2]) when n1 < n2"),
            "r at \n"
            "  L %0 = x  # f32[m, k]\n"
            "  L %1 = y  # f32[k, n1]\n"
            "  L %2 = matmul(x, y)  # f32[m, n1]\n"
            "  L %3 = z  # f32[k, n2]\n"
            "  L %4 = matmul(x, z)  # f32[m, n2]\n"
            "  R %5 = concat(y, z)  # f32[k, n1 + n2]\n"
            "  R %6 = matmul(x, %5)  # f32[m, n1 + n2]\n"
            "  R %7 = split(%6, sizes=[n1,n2])  # f32[m, n1] f32[m, n2]\n"
            "  %2 => %7.0\n"
            "  %4 => %7.1\n"
            "  when n1 < n2\n");
}

TEST(InstancesTest, ValuesMadeFromSymbolsAreFills) {
  EXPECT_THAT(OnlyInstance("rule r batch_norm(x[n, c], s, b, m, v, epsilon=?e) => add(x, mul(?e, scalar(n * c)))"),
              HasSubstr("fill("));
}

TEST(InstancesTest, AMissingConditionIsAnError) {
  const auto instances = InstancesOf("rule r relu(x) => transpose(relu(x), perm=[1, 0])");
  ASSERT_FALSE(instances.ok());
  EXPECT_THAT(std::string(instances.status().message()),
              HasSubstr("test:1:1: rule r: at shape(x)..=0: the right side: transpose: perm must name every axis"));
}

// The axes of a created tensor come from an attribute; small limits suffice for it.
TEST(InstancesTest, SmallLimitsHaveRoomForShapesInAttributes) {
  const auto rules = ParseRules(
      "rule r partition(iota(shape=[?a, ?b, ?c, ?e], axis=0, dtype=f32), axis=1, degree=?d)\n"
      "=> each_iota(shape=[?a, ?b div ?d, ?c, ?e], axis=0, dtype=f32, degree=?d)",
      "test");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const auto compiled = CompileRule((*rules)[0]);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(SmallLimits(**compiled).max_rank, 5);
  EXPECT_TRUE(SpecHash(**compiled).ok());
}

}  // namespace
}  // namespace rewright
