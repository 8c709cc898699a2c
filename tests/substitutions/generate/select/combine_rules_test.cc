// Tests which rules of several files a search gets.
#include "substitutions/generate/select/combine_rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"

namespace rewright::generate {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Gives the rules a proof record without proving them.
std::vector<Rule> Proved(const std::string& text, RuleClass rule_class = RuleClass::kExact) {
  auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  for (Rule& rule : *rules) {
    rule.proof = ProofRecord{.rule_class = rule_class, .instances = 1, .prover = ProverHash()};
  }
  return *std::move(rules);
}

Combination Combined(const std::vector<std::vector<Rule>>& files, int threads = 1) {
  auto combined = CombineRules(files, {.threads = threads});
  EXPECT_TRUE(combined.ok()) << combined.status();
  return combined.ok() ? *std::move(combined) : Combination();
}

std::vector<std::string> Names(const Combination& combination) {
  std::vector<std::string> names;
  for (const Rule& rule : combination.rules) names.push_back(rule.name);
  return names;
}

TEST(CombineRules, AMoreGeneralRuleTakesThePlaceOfOneOfTheBase) {
  const auto base = Proved(
      "# ---- a section\n\n# above it\n"
      "rule own matmul(matmul(x[m, k], y[k, l]), z[l, n]) => matmul(x, matmul(y, z))\n");
  const auto found = Proved("rule found matmul(matmul(u[b.., m, k], v[k, l]), w[l, n]) => matmul(u, matmul(v, w))\n");
  const Combination combined = Combined({base, found});
  EXPECT_THAT(Names(combined), ElementsAre("found"));
  EXPECT_EQ(combined.replaced, 1);
  EXPECT_THAT(combined.rules[0].comment, ElementsAre("above it"));
  // A rule that reads it backwards does not replace it.
  const auto back = Proved("rule back matmul(u[b.., m, k], matmul(v[k, l], w[l, n])) => matmul(matmul(u, v), w)\n");
  EXPECT_EQ(Combined({base, back}).replaced, 0);
  // The reverse does not hold.
  EXPECT_THAT(Names(Combined({found, base})), ElementsAre("found"));
  EXPECT_EQ(Combined({found, base}).replaced, 0);
}

TEST(CombineRules, ConditionsOnValuesStayAndLeaveOutWhatGainsOnlyUnderThem) {
  const auto base = Proved("rule own sub(sub(x[n], y[n]), z[n]) => sub(x, add(y, z)) when weight(y) and weight(z)\n");
  const auto found = Proved("rule found sub(sub(x[n], y[n]), z[n]) => sub(x, add(y, z))\n");
  EXPECT_THAT(Names(Combined({base, found})), ElementsAre("own"));
  EXPECT_EQ(Combined({base, found}).derivable, 1);
  EXPECT_THAT(Names(Combined({{}, found})), ElementsAre("found"));
}

TEST(CombineRules, LeavesOutWhatFollowsAndWhatUndoesARule) {
  const auto base = Proved("rule once relu(relu(x)) => relu(x)\n");
  const auto twice = Proved("rule twice relu(relu(relu(x))) => relu(x)\n");
  EXPECT_THAT(Names(Combined({base, twice})), ElementsAre("once"));
  const auto apart = Proved("rule apart mul(add(x[n], y[n]), z[n]) => add(mul(x, z), mul(y, z))\n");
  const auto together = Proved("rule together add(mul(x[n], z[n]), mul(y[n], z)) => mul(add(x, y), z)\n");
  EXPECT_THAT(Names(Combined({apart, together})), ElementsAre("apart"));
  EXPECT_THAT(Names(Combined({{}, together})), ElementsAre("together"));
}

TEST(CombineRules, AnExactRuleIsNotLeftOutForOthersThatAreNot) {
  const auto base = Proved("rule once relu(relu(x)) => relu(x)\n", RuleClass::kReassociating);
  const auto twice = Proved("rule twice relu(relu(relu(x))) => relu(x)\n", RuleClass::kExact);
  EXPECT_THAT(Names(Combined({base, twice})), ElementsAre("once", "twice"));
}

TEST(CombineRules, KeepsWhatEnablesAndLeavesOutWhatGainsNothing) {
  const auto base = Proved(
      "rule gain max(relu(transpose(x[m, n], perm=[1, 0])), transpose(x, perm=[1, 0]))\n"
      "=> relu(transpose(x, perm=[1, 0]))\n");
  const auto moves = Proved(
      "rule inwards transpose(relu(x[m, n]), perm=[1, 0]) => relu(transpose(x, perm=[1, 0]))\n\n"
      "rule exchange max(x[n], y[n]) => max(y, x)\n");
  const Combination combined = Combined({base, moves});
  EXPECT_THAT(Names(combined), ElementsAre("gain", "inwards"));
  EXPECT_EQ(combined.enabling, 1);
  EXPECT_THAT(Names(Combined({{}, moves})), IsEmpty());
}

TEST(CombineRules, LeavesOutWhatOnlyExchangesInputs) {
  const auto base = Proved("rule own max(z[n], max(x[n], y[n])) => max(y, max(x, z))\n");
  const auto general = Proved("rule general max(u, max(v, w)) => max(w, max(v, u))\n");
  EXPECT_THAT(Names(Combined({base, general})), ElementsAre("own"));
  EXPECT_EQ(Combined({base, general}).exchanging, 1);
  const auto same = Proved("rule same max(u[k], max(v[k], w[k])) => max(w, max(v, u))\n");
  EXPECT_THAT(Names(Combined({base, same})), ElementsAre("same"));
}

TEST(CombineRules, LeavesOutOutputsThatMeetInANumberAlone) {
  const auto base = Proved("rule base relu(relu(x)) => relu(x)\n");
  const auto scaled = [](const char* shape) {
    return Proved(absl::StrCat("rule scaled { mul(x[m, n], y[", shape, "]), mul(z[m2, n], y) }\n",
                               "  => split(mul(concat(x, z, axis=0), y), axis=0, sizes=[m, m2])\n"));
  };
  EXPECT_THAT(Names(Combined({base, scaled("n")})), ElementsAre("base", "scaled"));
  EXPECT_THAT(Names(Combined({base, scaled("")})), ElementsAre("base"));
  EXPECT_EQ(Combined({base, scaled("")}).unrelated, 1);
}

TEST(CombineRules, ThreadsDoNotMatter) {
  const auto rules = [](const char* file) {
    return *ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/rules/" + file + ".rules");
  };
  const std::vector<std::vector<Rule>> files = {rules("core"), rules("laws")};
  EXPECT_EQ(Names(Combined(files, 1)), Names(Combined(files, 3)));
}

TEST(CombineRules, SaysWhatIsWrong) {
  auto rules = Proved("rule r relu(relu(x)) => relu(x)\n");
  EXPECT_THAT(CombineRules({rules, rules}, {}).status().message(), ::testing::HasSubstr("rule r occurs twice"));
  rules[0].proof.reset();
  EXPECT_THAT(CombineRules({rules}, {}).status().message(), ::testing::HasSubstr("rule r is not proved"));
}

}  // namespace
}  // namespace rewright::generate
