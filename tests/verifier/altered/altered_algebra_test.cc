// The checker of steps against a prover whose laws are false, one at a time (algebra_mutations.txt), and the check of
// certificates against one that takes the text of a law for another. This program is built from sources of the prover
// in which each law may be altered while it runs.
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

#include "absl/strings/str_cat.h"
#include "substitutions/language/rule_parser.h"
#include "tests/counts.h"
#include "tests/support/recorded_list.h"
#include "tests/verifier/altered/algebra_claims.h"
#include "tests/verifier/altered/altered_law.h"
#include "tests/verifier/normal_form_util.h"
#include "tests/verifier/rules_util.h"
#include "verifier/check/step_checker.h"
#include "verifier/derivation/certificate_check.h"
#include "verifier/integer/context.h"
#include "verifier/integer/law.h"
#include "verifier/prove/prove_instance.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

struct Row {
  const char* text;
  const char* shown_by;  // a rule or a claim whose check fails with it; "": it is no false law
};
const Row kLaws[] = {
#include "laws.inc"
};

int altered = -1;
std::set<int> met;

}  // namespace

bool AlteredLaw(int number) {
  met.insert(number);
  return number == altered;
}

namespace {

// Laws, by name, for which an altered prover certifies another one.
const std::map<std::string, std::string> kLawsOfText = {
    {"law-of-packs", "relu(relu(x[b..])) => relu(x)"},
    {"law-of-stretching", "mul(x[b..], y[~ b..]) => mul(y, x)"},
    {"law-of-permutations", "transpose(relu(x), perm=?p) => relu(transpose(x, perm=?p))"},
    {"law-of-conditions", "pad(x[n], before=[0], after=[max(3 - n, 0)]) => x when n >= 3 or not positive(x)"},
    {"law-of-equal-applications",
     "add(transpose(x[n, n], perm=[1, 0]), transpose(x, perm=[0, 1]))\n"
     "  => add(transpose(x, perm=[1, 0]), transpose(x, perm=[1, 0]))"},
    {"law-of-finite-elements", "abs(x[n]) => x when finite(x)"},
    {"law-of-one-operator", "?f(?g(x[n])) => ?g(?f(x))"},
    {"law-of-siblings",
     "{ matmul(x[m, k], y[k, n]).. } => split(matmul(x, concat(y.., axis=1)), axis=1, sizes=[n..]) when n == 4"},
    {"law-of-attributes", "pad(x[n], before=[?a], after=[0]) => pad(x, before=[max(?a, 1)], after=[0])"},
    {"law-of-parentheses", "relu(relu(x[n, m])) => relu(x) when n - (m - n) > 0"},
};

// Laws of which a step was refused.
std::set<verifier::Law> refused_laws;

std::string FirstRefusal(const StepChecker& checker) {
  for (const auto& [law, steps] : checker.report().by_law) {
    if (steps.refused > 0) refused_laws.insert(law);
  }
  return checker.report().refused.empty() ? "" : checker.report().refused[0];
}

// The first step that is refused while the instance is tried, "" where none is.
std::string Refused(const RuleInstance& instance) {
  StepChecker checker;
  ProofOptions options;
  options.work_limit_s = 0.5;
  options.observer = &checker;
  options.tell_attempts = true;
  Prove(instance, options);
  return FirstRefusal(checker);
}

std::string Refused(const verifier::AlgebraClaim& claim) {
  StepChecker checker;
  verifier::AlgebraScene scene(&checker, claim.strategy);
  claim.work(scene);
  return FirstRefusal(checker);
}

// Why the certificate of the law is refused; "" where it is not, or where there is no proof.
std::string RefusedCertificate(const std::string& name, const std::string& law) {
  const auto rules = ParseRules(absl::StrCat("rule ", name, "\n  ", law, "\n"), "law");
  if (!rules.ok()) return "";
  RuleProofOptions options;
  options.limits = {.max_rank = 2, .max_perm_rank = 2, .max_broadcast_rank = 1};
  options.certify = true;
  const RuleVerdict verdict = ProveRule(rules->front(), options);
  if (verdict.verdict != Verdict::kProved) return "";
  const auto checked = CheckCertificate(verdict.certificate, "law.cert");
  return checked.ok() ? "" : std::string(checked.status().message());
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

  bool Knows(const std::string& name) const {
    return claims_.count(name) + instances_.count(name) + kLawsOfText.count(name) == 1;
  }
  std::string RefusedAt(const std::string& name) const {
    const auto law = kLawsOfText.find(name);
    if (law != kLawsOfText.end()) return RefusedCertificate(name, law->second);
    const auto claim = claims_.find(name);
    return claim != claims_.end() ? Refused(*claim->second) : Refused(instances_.at(name));
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, claim] : claims_) names.push_back(name);
    for (const auto& [name, instance] : instances_) names.push_back(name);
    for (const auto& [name, law] : kLawsOfText) names.push_back(name);
    return names;
  }

  std::map<std::string, const verifier::AlgebraClaim*> claims_;
  std::map<std::string, RuleInstance> instances_;
};

TEST_F(AlteredAlgebra, StepsOfAlteredLawsAreRefused) {
  std::set<std::string> names;
  std::map<std::string, std::set<verifier::Law>> refused_at;
  for (int law = 0; law < static_cast<int>(std::size(kLaws)); ++law) {
    const std::string name = kLaws[law].shown_by;
    if (name.empty()) continue;
    ASSERT_TRUE(Knows(name)) << kLaws[law].text << ": found `" << name << "`, expected a claim or a rule of the tests";
    altered = law;
    refused_laws.clear();
    EXPECT_NE(RefusedAt(name), "") << kLaws[law].text << ": taken at " << name;
    for (const verifier::Law refused : refused_laws) refused_at[name].insert(refused);
    names.insert(name);
  }
  altered = -1;
  // The list of laws names a witness at which some row has the law's own steps refused.
  for (const verifier::LawInfo& info : verifier::kAllLaws) {
    if (std::string(info.shown_by).starts_with("= ")) continue;
    EXPECT_EQ(refused_at[info.shown_by].count(info.law), 1u) << info.text << " at " << info.shown_by;
  }
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

// The table of normal forms shows most laws of the algebra: rows change with them. The list has those that no row
// shows.
TEST_F(AlteredAlgebra, LawsHaveRowsInTheTable) {
  Findings findings;
  for (const Row& law : kLaws) findings[law.text] = "not shown";
  for (const verifier::TableRow& row : verifier::ReadTable()) {
    met.clear();
    const std::string form = verifier::PrintedForm(row);
    for (int law : std::set<int>(met)) {
      altered = law;
      if (verifier::PrintedForm(row) != form) findings[kLaws[law].text] = "";
    }
    altered = -1;
  }
  ExpectRecorded("verifier/lists/laws_without_row.txt", "laws", findings, /*whole=*/true);
}

// Finds a claim that shows a law to be false: REWRIGHT_LAW=N tries them all.
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
