// Soundness of the prover: true rules are changed at one place, of their text or of one declaration that they use. A
// mutant that the prover accepts although values differ would be an unsound proof.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/recorded_list.h"
#include "tests/support/rule_mutation.h"
#include "tests/verifier/rules_util.h"
#include "verifier/prove/prove_instance.h"
#include "verifier/refute/counterexample.h"

namespace rewright {
namespace {

class MutationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MutationTest, NoMutantThatDiffersIsProved) {
  constexpr uint64_t kSeed = 20240607;
  constexpr int kMutantsPerRule = 20;
  std::vector<RuleCase> rules = LoadRules(GetParam());
  // Rules whose right side applies an operator.
  std::erase_if(rules, [](const RuleCase& rule) {
    if (rule.expect != "proved" || rule.instances.empty()) return true;
    const RuleInstance& instance = rule.instances[rule.instances.size() / 2];
    return std::none_of(instance.nodes.begin() + instance.num_lhs_nodes, instance.nodes.end(),
                        [](const SymbolicNode& node) { return node.meaning != nullptr; });
  });
  std::vector<std::string> names;
  for (const RuleCase& rule : rules) names.push_back(rule.name);
  Findings findings;
  for (MutantCase& one : TodaysMutants(names, kMutantsPerRule * static_cast<int>(rules.size()), kSeed)) {
    const std::vector<RuleInstance>& instances = rules[one.place].instances;
    RuleInstance mutant;
    if (!MutateDeclaration(instances[instances.size() / 2], one.rng, &mutant)) {
      findings[one.name] = "none";
      continue;
    }
    ProofOptions options;
    options.search_counterexample = false;
    options.work_limit_s = 0.3;
    const bool proved = Prove(mutant, options).verdict == Verdict::kProved;
    const std::optional<Counterexample> found = verifier::CounterexampleSearch(mutant, one.rng()).Run(250, 2);
    EXPECT_FALSE(proved && found) << "seed " << kSeed << ": proved and false: " << one.name << " " << found->ToString();
    findings[one.name] = found ? "" : proved ? "proved" : "open";
  }
  ExpectRecorded("verifier/lists/mutants_of_declarations.txt", GetParam(), findings, AllCases());
}

INSTANTIATE_TEST_SUITE_P(Rules, MutationTest,
                         ::testing::Values("matmul.rules", "conv.rules", "elementwise.rules", "structure.rules",
                                           "taso_axioms.rules", "xla_simplifier.rules", "missed.rules"),
                         [](const auto& info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

// All rules that are said to be proved: those that come with the program and those of the tests.
std::vector<Rule> TrueRules() {
  std::vector<Rule> all;
  for (const char* file :
       {"substitutions/rules/core.rules", "substitutions/rules/laws.rules", "tests/verifier/conv.rules",
        "tests/verifier/matmul.rules", "tests/verifier/elementwise.rules", "tests/verifier/extra.rules",
        "tests/verifier/structure.rules", "tests/verifier/taso_axioms.rules", "tests/verifier/missed.rules"}) {
    auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/" + file);
    EXPECT_TRUE(rules.ok()) << rules.status();
    for (const Rule& rule : rules.ok() ? *rules : std::vector<Rule>()) {
      if (!rule.proof && rule.expect != "proved") continue;
      all.push_back(rule);
      all.back().name = absl::StrCat(std::filesystem::path(file).stem().string(), "/", rule.name);  // one name a rule
    }
  }
  return all;
}

TEST(RuleMutation, NoMutantThatTheInterpreterTellsApartIsProved) {
  const std::vector<Rule> rules = TrueRules();
  const JudgedMutants judged = JudgeMutants(rules, /*whole=*/1200, /*instances=*/3, /*seed=*/20240612);
  EXPECT_THAT(judged.false_proofs, testing::IsEmpty());
  ExpectRecorded("verifier/lists/mutants_of_rules.txt", "rules", judged.findings, AllCases());
}

}  // namespace
}  // namespace rewright
