// Draws that tell coincidences apart from laws.
#include "verifier/check/bounded/distinguishing_assignments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "substitutions/instance/instances.h"
#include "tests/verifier/rules_util.h"

namespace rewright::verifier {
namespace {

std::vector<RuleInstance> InstancesOf(const std::string& text) {
  std::vector<RuleInstance> instances;
  const auto compiled = CompileRule(RuleOf(text));
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  const absl::Status status = ForEachInstance(**compiled, SmallLimits(**compiled), [&](RuleInstance instance) {
    instances.push_back(std::move(instance));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return instances;
}

int SymbolNamed(const RuleInstance& instance, const std::string& name) {
  for (size_t i = 0; i < instance.symbols.size(); ++i) {
    if (instance.symbols[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no symbol " << name;
  return 0;
}

// Each coincidence that the rule leaves open is broken by one of the chosen draws, whatever the seed.
TEST(DistinguishingAssignments, BreakCoincidences) {
  const std::vector<RuleInstance> instances = InstancesOf("rule r  matmul(x[m, k], y[k, n]) => matmul(x, y)");
  ASSERT_EQ(instances.size(), 1u);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 rng(seed);
    const DistinguishingAssignments draws = DrawTelling(instances[0], {}, rng);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        if (i == j) continue;
        EXPECT_TRUE(std::any_of(draws.chosen.begin(), draws.chosen.end(),
                                [&](const auto& symbols) { return symbols[i] < symbols[j]; }))
            << "seed " << seed << ": no draw with symbol " << i << " below symbol " << j;
      }
    }
  }
}

// A rare assignment is searched for: equal widths of outputs of unequal widths, as a stride of two has them.
TEST(DistinguishingAssignments, SearchForWhatChanceMisses) {
  const std::vector<RuleInstance> instances = InstancesOf(
      "rule r  add(conv2d(x[n, c, h, w], y[o, c, r, s], strides=?s), conv2d(z[n, c, h, v], y, strides=?s))"
      " => conv2d(add(x, z), y, strides=?s)");
  ASSERT_FALSE(instances.empty());
  const auto w = static_cast<size_t>(SymbolNamed(instances[0], "w"));
  const auto v = static_cast<size_t>(SymbolNamed(instances[0], "v"));
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 rng(seed);
    const DistinguishingAssignments draws = DrawTelling(instances[0], {.pool = 1}, rng);
    EXPECT_TRUE(
        std::any_of(draws.all.begin(), draws.all.end(), [&](const auto& symbols) { return symbols[w] != symbols[v]; }))
        << "seed " << seed;
  }
}

// A rule that lost the condition on an attribute of its right side: of four draws some break the condition and others
// keep it, though twenty symbols leave hundreds of coincidences.
TEST(DistinguishingAssignments, DrawAttributesOfBothSigns) {
  const std::vector<RuleInstance> instances = InstancesOf(kJoinedKernels);
  ASSERT_EQ(instances.size(), 1u);
  const auto symbol = [&](const std::string& name) { return static_cast<size_t>(SymbolNamed(instances[0], name)); };
  const size_t l1 = symbol("?l1"), l2 = symbol("?l2");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 rng(seed);
    const DistinguishingAssignments draws = DrawTelling(instances[0], {.most_elements = 200}, rng);
    for (const bool kept : {false, true}) {
      EXPECT_TRUE(std::any_of(draws.chosen.begin(), draws.chosen.end(),
                              [&](const auto& symbols) { return (symbols[l2] >= symbols[l1]) == kept; }))
          << "seed " << seed << ": the condition is never " << (kept ? "kept" : "broken");
    }
  }
}

TEST(DistinguishingAssignments, AreSmallAndFew) {
  for (const RuleInstance& instance : InstancesOf("rule r  relu(x[a..]) => relu(x)")) {
    std::mt19937_64 rng(1);
    const DistinguishingAssignments draws = DrawTelling(instance, {.draws = 2, .most_elements = 40}, rng);
    EXPECT_LE(draws.chosen.size(), 2u);
    for (const std::vector<int64_t>& symbols : draws.chosen) {
      int64_t elements = 1;
      for (int64_t size : symbols) elements *= size;
      EXPECT_LE(2 * elements, 40);  // of the leaf and of the values made from it
    }
  }
}

}  // namespace
}  // namespace rewright::verifier
