#include "verifier/prove/prove_instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "substitutions/instance/instances.h"
#include "tests/support/recorded_list.h"
#include "tests/verifier/rules_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// One verdict for a rule: refuted if one instance is, proved if all are.
ProofResult Worst(const RuleCase& rule) {
  ProofResult worst;
  worst.verdict = Verdict::kProved;
  for (const RuleInstance& instance : rule.instances) {
    ProofOptions options;
    options.work_limit_s = 10;  // verdicts must not depend on the machine
    ProofResult result = Prove(instance, options);
    if (result.verdict == Verdict::kProved) continue;
    if (worst.verdict != Verdict::kRefuted) worst = std::move(result);
  }
  return worst;
}

class RuleFileTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RuleFileTest, VerdictsAreAsExpected) {
  for (const RuleCase& rule : LoadRules(GetParam())) {
    ProofResult result = Worst(rule);
    EXPECT_EQ(VerdictName(result.verdict), rule.expect) << rule.name << ": " << result.reason;
    EXPECT_EQ(result.counterexample.has_value(), result.verdict == Verdict::kRefuted) << rule.name;
  }
}

// The prover alone does not prove the rules that the search for counterexamples refutes at once.
TEST_P(RuleFileTest, FalseRulesAreNotProvedWithoutTheSearch) {
  ProofOptions options;
  options.search_counterexample = false;
  for (const RuleCase& rule : LoadRules(GetParam())) {
    if (rule.expect != "refuted" || rule.instances.empty()) continue;
    const bool all = std::all_of(rule.instances.begin(), rule.instances.end(), [&](const RuleInstance& instance) {
      return Prove(instance, options).verdict == Verdict::kProved;
    });
    EXPECT_FALSE(all) << rule.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RuleFileTest,
                         ::testing::Values("matmul.rules", "conv.rules", "elementwise.rules", "extra.rules",
                                           "structure.rules", "data.rules", "taso_axioms.rules", "xla_simplifier.rules",
                                           "missed.rules"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

// The laws that provers of tensor rules miss, but for one or another, are proved: the list has those that are not.
TEST(MissedLawsTest, AreProved) {
  Findings findings;
  for (const RuleCase& rule : LoadRules("missed.rules")) {
    if (rule.expect != "refuted") findings[rule.name] = rule.expect == "proved" ? "" : rule.expect;
  }
  ExpectRecorded("verifier/lists/laws_open.txt", "missed.rules", findings, /*whole=*/true);
}

// Every law of tests/verifier/prototype_rules.txt has a rule; the tests above prove and refute them.
TEST(PrototypeTest, EveryLawIsStatedHere) {
  std::map<std::string, std::string> expectations;
  for (const char* file : {"matmul.rules", "conv.rules", "elementwise.rules", "structure.rules", "taso_axioms.rules"}) {
    for (const RuleCase& rule : LoadRules(file)) {
      EXPECT_FALSE(rule.instances.empty()) << rule.name;
      expectations.emplace(rule.name, rule.expect);
    }
  }
  std::ifstream in(std::string(REWRIGHT_SOURCE_DIR) + "/tests/verifier/prototype_rules.txt");
  ASSERT_TRUE(in.good());
  std::map<std::string, int> found, here;
  Findings beyond;  // laws that the prototype leaves open
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> parts = absl::StrSplit(line, '|');
    ASSERT_EQ(parts.size(), 3u) << line;
    const std::string verdict(absl::StripAsciiWhitespace(parts[0])), rule(absl::StripAsciiWhitespace(parts[2]));
    EXPECT_TRUE(names.insert(parts[1]).second) << line;
    ++found[verdict];
    if (rule == "-") {
      EXPECT_EQ(verdict, "unknown") << line;
      continue;
    }
    ASSERT_TRUE(expectations.contains(rule)) << line;
    ++here[expectations[rule]];
    if (verdict == "unknown") beyond[rule] = expectations[rule] == "proved" ? "" : expectations[rule];
    if (verdict != "unknown") {
      EXPECT_EQ(expectations[rule], verdict) << line;
    }
  }
  EXPECT_EQ(found["proved"], 129);
  EXPECT_EQ(found["refuted"], 14);
  EXPECT_EQ(found["unknown"], 6);
  ExpectRecorded("verifier/lists/laws_open.txt", "the prototype's", beyond, /*whole=*/true);
  std::cout << here["proved"] << " proved, " << here["refuted"] << " refuted of 149\n";
}

// All 44 axioms of TASO are there.
TEST(TasoTest, EveryAxiomIsStatedHere) {
  std::set<int> proved;
  for (const RuleCase& rule : LoadRules("taso_axioms.rules")) {
    int number = 0;
    if (std::sscanf(rule.name.c_str(), "axiom-%d-", &number) == 1 && rule.expect == "proved") proved.insert(number);
  }
  EXPECT_EQ(proved.size(), 44u);
  EXPECT_EQ(*proved.begin(), 1);
  EXPECT_EQ(*proved.rbegin(), 44);
}

const RuleCase& Find(const std::vector<RuleCase>& rules, const std::string& name) {
  for (const RuleCase& rule : rules) {
    if (rule.name == name) return rule;
  }
  ADD_FAILURE() << name;
  return rules[0];
}

TEST(VerifierTest, CounterexampleSaysWhereAndWhat) {
  const auto rules = LoadRules("elementwise.rules");
  ProofResult result = Prove(Find(rules, "false-relu-of-sum").instances[0]);
  ASSERT_EQ(result.verdict, Verdict::kRefuted);
  ASSERT_TRUE(result.counterexample.has_value());
  const Counterexample& found = *result.counterexample;
  EXPECT_EQ(found.obligation, Obligation::kElements);
  EXPECT_EQ(found.symbols.size(), 1u);
  EXPECT_EQ(found.inputs.size(), 2u);
  EXPECT_NE(found.lhs, found.rhs);
  EXPECT_THAT(found.ToString(), HasSubstr("elements differ m="));
}

TEST(VerifierTest, FiniteOnlyStepsAreReported) {
  const auto rules = LoadRules("elementwise.rules");
  EXPECT_TRUE(Prove(Find(rules, "softmax-by-definition").instances[0]).used_finite_only_step);
  EXPECT_FALSE(Prove(Find(rules, "softmax-of-rows").instances[0]).used_finite_only_step);
}

TEST(VerifierTest, QueriesCanBeKept) {
  const auto rules = LoadRules("matmul.rules");
  ProofOptions options;
  options.keep_smtlib = true;
  ProofResult result = Prove(Find(rules, "concat-of-split").instances[0], options);
  EXPECT_EQ(result.verdict, Verdict::kProved);
  ASSERT_FALSE(result.smtlib.empty());
  EXPECT_THAT(result.smtlib[0].text, HasSubstr("(check-sat)"));
}

TEST(VerifierTest, WithoutSearchAFalseRuleIsUnknown) {
  const auto rules = LoadRules("matmul.rules");
  ProofOptions options;
  options.search_counterexample = false;
  ProofResult result = Prove(Find(rules, "false-matmul-commutes").instances[0], options);
  EXPECT_EQ(result.verdict, Verdict::kUnknown);
  EXPECT_THAT(result.reason, HasSubstr("elements of output 0"));
}

TEST(VerifierTest, TheLimitOfWorkEndsInUnknown) {
  const auto rules = LoadRules("conv.rules");
  ProofOptions options;
  options.work_limit_s = 1e-6;
  ProofResult result = Prove(Find(rules, "merge-convs").instances[0], options);
  EXPECT_EQ(result.verdict, Verdict::kUnknown);
  EXPECT_THAT(result.reason, HasSubstr("limit of work"));
}

TEST(VerifierTest, TheSameSeedGivesTheSameResult) {
  const auto rules = LoadRules("conv.rules");
  const RuleInstance& instance = Find(rules, "false-merge-with-other-strides").instances[0];
  EXPECT_EQ(Prove(instance).reason, Prove(instance).reason);
}

}  // namespace
}  // namespace rewright
