// The laws of Winograd's algorithms: proved, and by nothing but the right matrices.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/verifier/rules_util.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/classify/prove_rounding.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

std::vector<Rule> Laws() {
  const absl::StatusOr<std::string> file = FindRuleFile("winograd.rules");
  EXPECT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<std::vector<Rule>> rules = ReadRules(*file);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? *rules : std::vector<Rule>();
}

bool IsOfOneDirection(const Rule& rule) {
  return rule.name.find("-1x") != std::string::npos || rule.name.find("x1-") != std::string::npos;
}

TEST(WinogradLaws, OfOneDirectionAreProved) {
  int proved = 0;
  for (const Rule& rule : Laws()) {
    EXPECT_TRUE(rule.proof.has_value()) << rule.name;
    if (!IsOfOneDirection(rule) && rule.name != "conv-winograd-2x2-3x3") continue;
    if (proved++ % (Cases(10) == 10 ? 1 : 4) != 0) continue;
    const RuleVerdict verdict = ProveUnclassified(rule);
    EXPECT_EQ(verdict.verdict, Verdict::kProved) << rule.name << ": " << verdict.reason;
  }
  EXPECT_EQ(proved, 17);
}

// An element of a tile adds to results that do not read it, and is taken away again.
TEST(WinogradLaws, LoseWhatIsSmallBesideItsNeighbours) {
  for (const Rule& rule : Laws()) {
    if (rule.name != "conv-winograd-1x2-1x3" && rule.name != "conv-winograd-2x1-3x1") continue;
    const auto compiled = CompileRule(rule, RuleUse::kProof);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto instances = Instances(**compiled, SmallLimits(**compiled));
    ASSERT_TRUE(instances.ok()) << instances.status();
    for (const RuleInstance& instance : *instances) {
      EXPECT_GT(ProveRounding(instance, false, ProofOptions()).growth, kRiskFactor) << rule.name;
    }
  }
}

TEST(WinogradLaws, ArePrintedAsTheyAreRead) {
  for (const Rule& rule : Laws()) {
    const std::string text = PrintRule(rule);
    const absl::StatusOr<std::vector<Rule>> again = ParseRules(text, "again");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(PrintRule(again->at(0)), text);
    EXPECT_THAT(text, testing::HasSubstr("let A = [["));
  }
}

// With one entry of A, B or G changed, a law is another, which is false.
TEST(WinogradLaws, MutantsAreNotProved) {
  std::vector<Rule> mutants;
  for (const Rule& law : Laws()) {
    if (!IsOfOneDirection(law)) continue;
    for (size_t m = 0; m < law.rhs.lets.size() && law.rhs.lets[m].name.size() == 1; ++m) {
      if (law.rhs.lets[m].term.name != "concat") continue;
      for (size_t i = 0; i < law.rhs.lets[m].term.operands.size(); ++i) {
        for (size_t j = 0; j < law.rhs.lets[m].term.operands[i].operands.size(); ++j) {
          Rule& mutant = mutants.emplace_back(law);
          ArgExpr& entry = mutant.rhs.lets[m].term.operands[i].operands[j].value;
          entry = ArgExpr::Binary(ArgOp::kAdd, entry, ArgExpr::Int(1));
          absl::StrAppend(&mutant.name, "-", law.rhs.lets[m].name, i, "-", j);
        }
      }
    }
  }
  ASSERT_GT(mutants.size(), 1000u);
  constexpr int kFew = 16;
  ForTodaysCases(
      static_cast<int>(mutants.size()),
      [&](size_t k) {
        const RuleVerdict verdict = ProveUnclassified(mutants[k]);
        EXPECT_NE(verdict.verdict, Verdict::kProved) << PrintRule(mutants[k]);
      },
      /*part=*/static_cast<int>(mutants.size()) / kFew);
}

// A kernel of literal extent is its taps.
TEST(WinogradLaws, SumsOverLiteralRangesAreTheirTerms) {
  const char* const text = R"(
rule conv-taps
  conv2d(x[n, c, h, w + 2], k[o, c, r, 3])
  => add(add(conv2d(slice(x, starts=[0, 0, 0, 0], stops=[n, c, h, w]),
                    slice(k, starts=[0, 0, 0, 0], stops=[o, c, r, 1])),
             conv2d(slice(x, starts=[0, 0, 0, 1], stops=[n, c, h, w + 1]),
                    slice(k, starts=[0, 0, 0, 1], stops=[o, c, r, 2]))),
         conv2d(slice(x, starts=[0, 0, 0, 2], stops=[n, c, h, w + 2]),
                slice(k, starts=[0, 0, 0, 2], stops=[o, c, r, 3])))

rule columns
  matmul(x[m, 2], [[1, 2], [3, 4]])
  => matmul(add(x, x), [[1 / 2, 1], [3 / 2, 2]])

rule columns-transposed
  matmul(x[m, 2], [[1, 2], [3, 4]])
  => matmul(x, [[1, 3], [2, 4]])
)";
  const absl::StatusOr<std::vector<Rule>> rules = ParseRules(text, "text");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(ProveUnclassified(rules->at(0)).verdict, Verdict::kProved);
  EXPECT_EQ(ProveUnclassified(rules->at(1)).verdict, Verdict::kProved);
  EXPECT_EQ(ProveUnclassified(rules->at(2)).verdict, Verdict::kRefuted);
}

TEST(WinogradLaws, MatricesWithRowsOfDifferentLengthAreAnError) {
  const auto rules = ParseRules("rule a\n  matmul(x[m, 2], [[1, 2], [3]]) => x\n", "text");
  EXPECT_THAT(std::string(rules.status().message()),
              testing::HasSubstr("text:2:28: found a row of 1 numbers, expected 2 as in the first"));
}

}  // namespace
}  // namespace rewright
