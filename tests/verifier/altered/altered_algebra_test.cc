// The checker of steps against a prover whose laws are false, one at a time (algebra_mutations.txt). This program is
// built from sources of the prover in which each law may be altered while it runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "tests/counts.h"
#include "tests/verifier/altered/altered_law.h"
#include "tests/verifier/rules_util.h"
#include "verifier/context.h"
#include "verifier/step_checker.h"
#include "verifier/verifier.h"

namespace rewright {
namespace {

constexpr int kLaws =
#include "count.inc"
    ;
const char* const kNames[] = {
#include "names.inc"
};

int altered = -1;
std::set<int> met;

}  // namespace

namespace verifier {
bool AlteredLaw(int number) {
  met.insert(number);
  return number == altered;
}
}  // namespace verifier

namespace {

// The first step that is refused while the instance is tried, "" where none is.
std::string Refused(const RuleInstance& instance) {
  StepChecker checker;
  ProofOptions options;
  options.time_limit_s = 0.5;
  options.listener = &checker;
  options.tell_attempts = true;
  Prove(instance, options);
  return checker.report().refused.empty() ? "" : checker.report().refused[0];
}

TEST(AlteredAlgebra, StepsOfAlteredLawsAreRefused) {
  const bool whole = Cases(10) > 1;  // with REWRIGHT_FULL
  const size_t most_tried = whole ? 200 : 16;
  std::vector<std::pair<std::string, RuleInstance>> instances;
  for (const char* file : {"altered/altered.rules", "elementwise.rules", "missed.rules", "matmul.rules",
                           "structure.rules", "conv.rules", "data.rules", "xla_simplifier.rules"}) {
    for (RuleCase& rule : LoadRules(file)) {
      if (rule.expect != "proved" || rule.instances.empty()) continue;
      instances.emplace_back(rule.name, std::move(rule.instances[rule.instances.size() / 2]));
    }
  }
  // Of each law the instances that meet it, with what they cost.
  std::vector<std::vector<std::pair<double, size_t>>> met_by(kLaws);
  for (size_t i = 0; i < instances.size(); ++i) {
    met.clear();
    const double start_s = verifier::ThreadCpuSeconds();
    const std::string refused = Refused(instances[i].second);
    EXPECT_EQ(refused, "") << instances[i].first;
    for (int law : met) met_by[law].emplace_back(verifier::ThreadCpuSeconds() - start_s, i);
  }
  const int step = whole ? 1 : 8;
  int found = 0, tried = 0;
  for (int law = 0; law < kLaws; law += step) {
    altered = law;
    std::string by;
    std::sort(met_by[law].begin(), met_by[law].end());
    if (met_by[law].size() > most_tried) met_by[law].resize(most_tried);
    for (const auto& [cost_s, i] : met_by[law]) {
      const std::string refused = Refused(instances[i].second);
      if (refused.empty()) continue;
      by = instances[i].first + ": " + refused.substr(0, 160);
      break;
    }
    altered = -1;
    ++tried;
    found += by.empty() ? 0 : 1;
    std::cout << law << " " << kNames[law] << "\n    "
              << (by.empty() ? "NOT FOUND among " + std::to_string(met_by[law].size()) + " instances" : by)
              << std::endl;
  }
  std::cout << found << " of " << tried << " altered laws found\n";
  // Some are met by no instance in a way that makes a difference.
  EXPECT_GE(found, whole ? 48 : tried / 2);
}

}  // namespace
}  // namespace rewright
