// Soundness of the prover: true rules are changed at one place, of their text or of one declaration that they use. A
// mutant that the prover accepts although values differ would be an unsound proof.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/distinguish.h"
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
      if (rule.proof || rule.expect == "proved") all.push_back(rule);
    }
  }
  return all;
}

// The first instances of a mutant; none where it is no rule.
std::vector<RuleInstance> FirstInstances(const Rule& rule, size_t count) {
  std::vector<RuleInstance> instances;
  const auto compiled = CompileRule(rule, RuleUse::kProof);
  if (!compiled.ok()) return instances;
  (void)ForEachInstance(**compiled, SmallLimits(**compiled), [&](RuleInstance instance) {
    instances.push_back(std::move(instance));
    return instances.size() < count ? absl::OkStatus() : absl::CancelledError("enough");
  });
  return instances;
}

// The same mutants each day: on some Z3 does not count its work, and a proof of such a one takes minutes.
TEST(RuleMutation, NoMutantThatTheInterpreterTellsApartIsProved) {
  constexpr uint64_t kSeed = 20240612;
  constexpr size_t kInstances = 3;
  const std::vector<Rule> rules = TrueRules();
  ASSERT_GT(rules.size(), 200u);
  MutationRng rng(kSeed);
  std::map<std::string, int> kinds;
  int proved = 0, refuted = 0, open = 0;
  for (int judged = 0; judged < Cases(1200);) {
    const std::optional<Mutant> mutant = MutateRule(rules[rng() % rules.size()], rng);
    if (!mutant) continue;
    const std::vector<RuleInstance> instances = FirstInstances(mutant->rule, kInstances);
    if (instances.empty()) continue;
    ++judged;
    ++kinds[mutant->change.substr(0, mutant->change.find(' '))];
    bool all_proved = true, told_apart = false;
    for (const RuleInstance& instance : instances) {
      ProofOptions options;
      options.search_counterexample = false;  // the proof alone is on trial
      options.work_limit_s = 0.3;
      const bool accepted = Prove(instance, options).verdict == Verdict::kProved;
      const std::optional<std::string> difference = Distinguished(instance, 150, rng);
      EXPECT_FALSE(accepted && difference) << "seed " << kSeed << ": proved and false: " << mutant->change << "\n"
                                           << PrintLaw(mutant->rule) << instance.description << "\n"
                                           << difference.value_or("");
      all_proved = all_proved && accepted;
      told_apart = told_apart || difference;
    }
    ++(told_apart ? refuted : all_proved ? proved : open);
  }
  std::cout << proved << " proved, " << refuted << " told apart by the interpreter, " << open << " open;";
  for (const auto& [kind, count] : kinds) std::cout << " " << kind << " " << count;
  std::cout << "\n";
  EXPECT_GT(refuted, proved);
  EXPECT_GE(kinds.size(), 5u);
}

}  // namespace
}  // namespace rewright
