// The checker of steps against a prover whose laws are false, one at a time (algebra_mutations.txt). This program is
// built from sources of the prover in which each law may be altered while it runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/counts.h"
#include "tests/verifier/altered/algebra_claims.h"
#include "tests/verifier/altered/altered_law.h"
#include "tests/verifier/rules_util.h"
#include "verifier/context.h"
#include "verifier/step_checker.h"
#include "verifier/verifier.h"

namespace rewright {
namespace {

struct AlteredLaw {
  const char* text;
  const char* shown_by;  // a rule or a claim whose check fails with it; "": it is no false law
};
const AlteredLaw kLaws[] = {
#include "laws.inc"
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

std::string Refused(const verifier::AlgebraClaim& claim) {
  StepChecker checker;
  verifier::AlgebraScene scene(&checker, claim.strategy);
  claim.work(scene);
  return checker.report().refused.empty() ? "" : checker.report().refused[0];
}

class AlteredAlgebra : public ::testing::Test {
 protected:
  AlteredAlgebra() {
    for (const char* file : {"altered/altered.rules", "elementwise.rules", "missed.rules", "matmul.rules",
                             "structure.rules", "conv.rules", "data.rules", "xla_simplifier.rules"}) {
      for (RuleCase& rule : LoadRules(file)) {
        if (rule.expect != "proved" || rule.instances.empty()) continue;
        instances_.emplace(rule.name, std::move(rule.instances[rule.instances.size() / 2]));
      }
    }
    for (const verifier::AlgebraClaim& claim : verifier::AlgebraClaims()) claims_.emplace(claim.name, &claim);
  }
  ~AlteredAlgebra() override { altered = -1; }

  bool Knows(const std::string& name) const { return claims_.count(name) + instances_.count(name) == 1; }
  std::string RefusedAt(const std::string& name) const {
    const auto claim = claims_.find(name);
    return claim != claims_.end() ? Refused(*claim->second) : Refused(instances_.at(name));
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, claim] : claims_) names.push_back(name);
    for (const auto& [name, instance] : instances_) names.push_back(name);
    return names;
  }

  std::map<std::string, const verifier::AlgebraClaim*> claims_;
  std::map<std::string, RuleInstance> instances_;
};

TEST_F(AlteredAlgebra, StepsOfAlteredLawsAreRefused) {
  std::set<std::string> names;
  for (int law = 0; law < static_cast<int>(std::size(kLaws)); ++law) {
    const std::string name = kLaws[law].shown_by;
    if (name.empty()) continue;
    ASSERT_TRUE(Knows(name)) << kLaws[law].text << ": found `" << name << "`, expected a claim or a rule of the tests";
    altered = law;
    EXPECT_NE(RefusedAt(name), "") << kLaws[law].text << ": taken at " << name;
    names.insert(name);
  }
  altered = -1;
  for (const std::string& name : names) EXPECT_EQ(RefusedAt(name), "") << name;
}

// Whatever meets them, the checker takes the laws as they are, and those of which the table says that they are true.
TEST_F(AlteredAlgebra, StepsOfTrueLawsAreTaken) {
  if (Cases(10) == 1) GTEST_SKIP() << "with REWRIGHT_FULL=1";
  std::vector<std::vector<std::string>> met_by(std::size(kLaws));
  for (const std::string& name : Names()) {
    met.clear();
    EXPECT_EQ(RefusedAt(name), "") << name;
    for (int law : met) met_by[law].push_back(name);
  }
  for (int law = 0; law < static_cast<int>(std::size(kLaws)); ++law) {
    altered = law;
    for (const std::string& name : met_by[law]) {
      const bool claimed_false = *kLaws[law].shown_by != '\0';
      if (claimed_false) break;
      EXPECT_EQ(RefusedAt(name), "") << kLaws[law].text << " at " << name;
    }
  }
}

// Where nobody knows yet what shows a law to be false: REWRIGHT_LAW=N looks everywhere.
TEST_F(AlteredAlgebra, Search) {
  const char* wanted = std::getenv("REWRIGHT_LAW");
  if (wanted == nullptr) GTEST_SKIP() << "with REWRIGHT_LAW=N, the number of a row from 0";
  for (int law = std::atoi(wanted); law < static_cast<int>(std::size(kLaws)); ++law) {
    altered = law;
    std::string found = "nothing";
    for (const std::string& name : Names()) {
      const std::string refused = RefusedAt(name);
      if (refused.empty()) continue;
      found = name + ": " + refused.substr(0, 200);
      break;
    }
    std::cout << law << " " << kLaws[law].text << "\n    " << found << std::endl;
    if (std::getenv("REWRIGHT_LAWS") == nullptr) break;
  }
}

}  // namespace
}  // namespace rewright
