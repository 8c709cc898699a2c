// The interpreter refutes no rule that comes with the program: both sides are computed many times for each, at random
// structures, sizes and attributes. This shares nothing with the proofs but the declarations of operators.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "substitutions/instance/instances.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/distinguish.h"
#include "tests/support/made_sets.h"
#include "tests/verifier/rules_util.h"

namespace rewright {
namespace {

constexpr uint64_t kSeed = 20261122;
constexpr size_t kInstances = 200;  // of a rule, at most
constexpr int kTriesTogether = 10;  // sizes for an instance before the next one has its turn
const int kTrials = Cases(10000);   // of each rule
constexpr size_t kOperators = 4;    // of those for which a rule with an operator variable stands

// A random sample of the instances within small limits.
std::vector<RuleInstance> Sample(const CompiledRule& rule, std::mt19937_64& rng) {
  std::vector<RuleInstance> sample;
  uint64_t seen = 0;
  const absl::Status status = ForEachInstance(rule, SmallLimits(rule), [&](RuleInstance instance) {
    ++seen;
    if (sample.size() < kInstances) {
      sample.push_back(std::move(instance));
    } else if (const uint64_t place = rng() % seen; place < kInstances) {
      sample[place] = std::move(instance);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return sample;
}

// Values that differ in f32 may be equal in 16 bits.
void ExpectNoBetterClassOnHalves(const std::string& file) {
  constexpr RuleClass kBestFirst[] = {RuleClass::kExact, RuleClass::kReassociating, RuleClass::kFiniteOnly,
                                      RuleClass::kNumericallyRisky};
  const auto place = [&](RuleClass c) { return std::find(std::begin(kBestFirst), std::end(kBestFirst), c); };
  const auto rules = ReadRules(file);
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const Rule& rule : *rules) {
    if (!rule.proof || !rule.proof->halves) continue;
    EXPECT_GE(place(*rule.proof->halves), place(rule.proof->rule_class)) << rule.name;
  }
}

// Counts in `computed` how many times both sides of the rule were computed; tells if that is as often as it should be.
bool ExpectNotToldApart(const Rule& rule, std::mt19937_64& rng, int64_t* computed) {
  const auto compiled = CompileRule(rule, RuleUse::kProof);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return false;
  const std::vector<RuleInstance> instances = Sample(**compiled, rng);
  EXPECT_FALSE(instances.empty()) << rule.name;
  // Rules of hundreds of applications take correspondingly longer.
  const int trials = std::max(kTriesTogether, kTrials * 20 / std::max<int>(20, (*compiled)->nodes().size()));
  std::optional<std::string> apart;
  for (int round = 0; round * kTriesTogether < 4 * trials && *computed < trials && !apart && !instances.empty();
       ++round) {
    const RuleInstance& instance = instances[static_cast<size_t>(round) % instances.size()];
    apart = Distinguished(instance, kTriesTogether, rng, computed);
    EXPECT_FALSE(apart.has_value()) << rule.name << " " << instance.description << ": " << *apart;
  }
  EXPECT_GT(*computed, 0) << rule.name;
  return *computed >= trials;
}

// `part`: one of so many rules, others each day.
void ExpectNotToldApart(const std::string& file, int part) {
  const auto rules = ReadRules(file);
  ASSERT_TRUE(rules.ok()) << rules.status();
  std::mt19937_64 rng(kSeed);
  int64_t total = 0;
  int tried = 0, short_of = 0;
  std::vector<Rule> all;
  for (const Rule& rule : *rules) {
    for (Rule& one : OperatorRules(rule, kOperators)) all.push_back(std::move(one));
  }
  ForTodaysCases(
      static_cast<int>(all.size()),
      [&](size_t k) {
        int64_t computed = 0;
        ++tried;
        short_of += !ExpectNotToldApart(all[k], rng, &computed);
        total += computed;
      },
      part);
  std::cout << std::filesystem::path(file).filename().string() << ", seed " << kSeed << ": " << tried << " of "
            << all.size() << " rules, both sides computed " << total << " times; " << short_of
            << " rules less than they should be\n";
}

class ShippedRulesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ShippedRulesTest, AreInNoBetterClassOnHalves) { ExpectNoBetterClassOnHalves(GetParam()); }

TEST_P(ShippedRulesTest, AreNotToldApart) { ExpectNotToldApart(GetParam(), 1); }

INSTANTIATE_TEST_SUITE_P(Files, ShippedRulesTest, ::testing::ValuesIn(ShippedRuleFiles()),
                         [](const auto& info) { return TestNameOf(info.param); });

TEST(ShippedRules, MadeSetsAreInNoBetterClassOnHalves) {
  for (const std::string& name : MadeSets()) ExpectNoBetterClassOnHalves(MadeSet(name));
}

TEST(ShippedRules, MadeSetsAreNotToldApart) {
  for (const std::string& name : MadeSets()) ExpectNotToldApart(MadeSet(name), 4);
}

}  // namespace
}  // namespace rewright
