#include "substitutions/rule_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/files.h"
#include "core/base/text_hash.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/prover_hash.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::NotNull;
using ::testing::SizeIs;

constexpr char kRelu[] = "rule relu-twice\n  relu(relu(x)) => relu(x)\n";

// Returns the rule with the record of a valid proof.
std::string Proved(const std::string& text, RuleClass rule_class = RuleClass::kExact) {
  auto rules = ParseRules(text, "t");
  EXPECT_TRUE(rules.ok()) << rules.status();
  Rule rule = rules->at(0);
  auto compiled = CompileRule(rule);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  rule.proof.emplace();
  rule.proof->rule_class = rule_class;
  rule.proof->prover = ProverHash();
  rule.proof->instances = 7;
  rule.proof->certificate = "c/r.cert";
  rule.proof->spec_hash = *RecordHash(**compiled, *rule.proof);
  return PrintRule(rule);
}

std::string LoadError(const std::string& text, const LoadOptions& options = {}) {
  auto set = RuleSet::FromText(text, "f.rules", options);
  return set.ok() ? "loaded" : std::string(set.status().message());
}

TEST(RuleSetTest, ARuleWithoutAProofIsRefused) {
  EXPECT_THAT(LoadError(kRelu), HasSubstr("f.rules:1:1: rule relu-twice is not proved"));
  LoadOptions trusting;
  trusting.trust_unverified = true;
  EXPECT_EQ(LoadError(kRelu, trusting), "loaded");
}

TEST(RuleSetTest, AProvedRuleIsLoadedWithItsDomain) {
  auto set = RuleSet::FromText(Proved(kRelu), "f.rules");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(set->matchers(), SizeIs(1));
  EXPECT_THAT(set->Find("relu-twice"), NotNull());
  EXPECT_THAT(set->Find("other"), IsNull());
}

TEST(RuleSetTest, AnAlteredRuleIsStale) {
  std::string text = Proved(kRelu);
  const size_t at = text.find("relu(relu(x))");
  text.replace(at, 13, "relu(relu(relu(x)))");
  EXPECT_THAT(LoadError(text), HasSubstr("f.rules:1:1: rule relu-twice has a stale proof"));
}

TEST(RuleSetTest, AnotherProverMakesStale) {
  std::string text = Proved(kRelu);
  const std::string now = "prover=\"" + TextHash::Hex(ProverHash()) + "\"";
  text.replace(text.find(now), now.size(), "prover=\"0000000000000001\"");
  EXPECT_THAT(LoadError(text), HasSubstr("stale proof"));
}

// The record is intact, but by a prover of other sources.
TEST(RuleSetTest, ARecordOfAnotherProverIsToldOf) {
  Rule rule = ParseRules(Proved(kRelu), "f.rules")->at(0);
  for (const uint64_t prover : {uint64_t{9}, ProverHash() ^ 1}) {
    rule.proof->prover = prover;
    rule.proof->spec_hash = *RecordHash(**CompileRule(rule), *rule.proof);
    EXPECT_THAT(LoadError(PrintRule(rule)),
                HasSubstr("f.rules:1:1: rule relu-twice was proved by another prover: found " + TextHash::Hex(prover) +
                          ", expected " + TextHash::Hex(ProverHash()) + "; `rewright verify --renew` proves it anew"));
    LoadOptions trusting;
    trusting.trust_unverified = true;
    EXPECT_EQ(LoadError(PrintRule(rule), trusting), "loaded");
  }
}

TEST(RuleSetTest, RecordsOfProversWithNumbersAreRead) {
  auto rules = ParseRules(std::string(kRelu) + "  proved exact instances=7 prover=9 spec=\"0123456789abcdef\"\n", "t");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->at(0).proof->prover, 9u);
  EXPECT_THAT(std::string(ParseRules(std::string(kRelu) + "  proved exact prover=\"9\"", "t").status().message()),
              HasSubstr("16 hexadecimal digits"));
}

// A change of any field makes the record invalid.
TEST(RuleSetTest, AnAlteredRecordIsStale) {
  const std::string whole = Proved(kRelu, RuleClass::kFiniteOnly);
  LoadOptions options;
  options.allow_finite_only = true;
  ASSERT_EQ(LoadError(whole, options), "loaded");
  constexpr std::pair<const char*, const char*> kEdits[] = {{"finite-only", "exact"},
                                                            {"finite-only", "numerically-risky"},
                                                            {"max_rank=6", "max_rank=5"},
                                                            {"max_rank=6", "max_rank=0"},
                                                            {"max_perm_rank=4", "max_perm_rank=3"},
                                                            {"max_broadcast_rank=4", "max_broadcast_rank=0"},
                                                            {"instances=7", "instances=5000"},
                                                            {"c/r.cert", "d/r.cert"}};
  for (const auto& [from, to] : kEdits) {
    std::string text = whole;
    ASSERT_NE(text.find(from), std::string::npos) << text;
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_THAT(LoadError(text), HasSubstr("f.rules:1:1: rule relu-twice has a stale proof")) << to;
    EXPECT_THAT(LoadError(text, options), HasSubstr("stale proof")) << to;
  }
}

TEST(RuleSetTest, TheHashCoversLawAndMeanings) {
  const auto hash = [](const std::string& text) { return *SpecHash(**CompileRule(ParseRules(text, "t")->at(0))); };
  EXPECT_EQ(hash(kRelu), hash(std::string("# A comment.\n") + kRelu));
  EXPECT_NE(hash(kRelu), hash("rule relu-twice\n  tanh(tanh(x)) => tanh(x)\n"));
  EXPECT_NE(hash(kRelu), hash("rule relu-twice\n  relu(relu(x)) => relu(x) when rank(x) == 1\n"));
}

TEST(RuleSetTest, RiskyAndFiniteOnlyRulesAreLeftOut) {
  const std::string risky = Proved(kRelu, RuleClass::kNumericallyRisky);
  LoadOptions options;
  EXPECT_THAT(RuleSet::FromText(risky, "f", options)->matchers(), SizeIs(0));
  options.allow_risky = true;
  EXPECT_THAT(RuleSet::FromText(risky, "f", options)->matchers(), SizeIs(1));
  const std::string finite = Proved(kRelu, RuleClass::kFiniteOnly);
  EXPECT_THAT(RuleSet::FromText(finite, "f", options)->matchers(), SizeIs(0));
  options.allow_finite_only = true;
  EXPECT_THAT(RuleSet::FromText(finite, "f", options)->matchers(), SizeIs(1));
}

TEST(RuleSetTest, RulesThatAreExpectedToBeRefutedAreLeftOut) {
  const std::string wrong = "rule wrong\n  neg(x) => x\n  expect refuted\n";
  const auto set = RuleSet::FromText(Proved(kRelu) + "\n" + wrong, "f");
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_THAT(set->matchers(), SizeIs(1));
  EXPECT_EQ(set->matchers()[0]->rule().name(), "relu-twice");
}

TEST(RuleSetTest, RulesAreDisabledByName) {
  LoadOptions options;
  options.trust_unverified = true;
  options.disabled = {"relu-twice"};
  auto set = RuleSet::FromText(kRelu, "f", options);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(set->matchers(), SizeIs(0));
  options.disabled = {"relu-thrice"};
  EXPECT_EQ(LoadError(kRelu, options), "no rule relu-thrice to disable");
}

TEST(RuleSetTest, FilesAreWrittenAndReadBack) {
  const std::string path = TemporaryFile("written.rules");
  const std::string text = "# The file.\n\n# One.\n" + Proved(kRelu) + "\nrule two neg(neg(x)) => x\n";
  auto rules = ParseRules(text, "t");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_TRUE(WriteText(path, PrintRules({}, *rules)).ok());
  auto again = ReadRules(path);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->size(), 2u);
  EXPECT_EQ(PrintRule(again->at(0)), PrintRule(rules->at(0)));
  EXPECT_EQ(PrintRule(again->at(1)), PrintRule(rules->at(1)));
  EXPECT_EQ(again->at(0).headings.at(0).at(0), "The file.");
  ASSERT_TRUE(WriteText(path, PrintRules({"made by a command"}, *rules)).ok());
  EXPECT_EQ(ReadRules(path)->at(0).headings.at(0).at(0), "made by a command");
  std::filesystem::remove(path);
}

TEST(RuleSetTest, FilesThatCannotBeRead) {
  EXPECT_THAT(std::string(ReadRules("/nowhere/x.rules").status().message()),
              HasSubstr("/nowhere/x.rules: No such file"));
}

TEST(RuleSetTest, AReaderReadsCompilesAndChecksOnce) {
  const std::string path = TemporaryFile("once.rules"), unproved = TemporaryFile("unproved.rules");
  ASSERT_TRUE(WriteText(path, Proved(kRelu)).ok());
  ASSERT_TRUE(WriteText(unproved, "rule other\n  relu(relu(x)) => relu(x)\n").ok());
  RuleReader reader;
  const auto first = RuleSet::FromFiles({path}, {}, &reader);
  ASSERT_TRUE(first.ok()) << first.status();
  std::filesystem::remove(path);
  const auto second = RuleSet::FromFiles({path}, {}, &reader);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(&first->Find("relu-twice")->rule(), &second->Find("relu-twice")->rule());

  // Earlier trust is no proof.
  EXPECT_TRUE(RuleSet::FromFiles({unproved}, {.trust_unverified = true}, &reader).ok());
  EXPECT_FALSE(RuleSet::FromFiles({unproved}, {}, &reader).ok());
  std::filesystem::remove(unproved);
}

TEST(RuleSetTest, ManyRulesHaveTheHashesThatEachHasByItself) {
  for (const char* name : {"core.rules", "laws.rules"}) {
    const auto path = FindRuleFile(name);
    ASSERT_TRUE(path.ok());
    const auto rules = ReadRules(*path);
    ASSERT_TRUE(rules.ok()) << rules.status();
    MeaningTexts known;
    for (size_t i = 0; i < rules->size(); ++i) {
      const auto compiled = CompileRule((*rules)[i]);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_EQ(*SpecHash(**compiled, &known), *SpecHash(**compiled)) << (*rules)[i].name;
    }
  }
}

TEST(RuleSetTest, TwoFilesMayNotShareAName) {
  const std::string path = TemporaryFile("one.rules");
  ASSERT_TRUE(WriteText(path, PrintRules({}, *ParseRules(kRelu, "t"))).ok());
  LoadOptions options;
  options.trust_unverified = true;
  auto set = RuleSet::FromFiles({path, path}, options);
  ASSERT_FALSE(set.ok());
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("the rule name relu-twice is taken"));
  std::filesystem::remove(path);
}

TEST(RuleSetTest, ARuleOfTwoFilesCountsOnce) {
  const std::string one = TemporaryFile("the.rules"), two = TemporaryFile("same.rules");
  ASSERT_TRUE(WriteText(one, PrintRules({}, *ParseRules(kRelu, "t"))).ok());
  ASSERT_TRUE(WriteText(two, PrintRules({}, *ParseRules(kRelu, "t"))).ok());
  LoadOptions options;
  options.trust_unverified = true;
  auto set = RuleSet::FromFiles({one, two}, options);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->matchers().size(), RuleSet::FromFiles({one}, options)->matchers().size());
  // Another law of the same name is another rule.
  ASSERT_TRUE(WriteText(two, PrintRules({}, *ParseRules("rule relu-twice relu(relu(relu(x))) => relu(x)", "t"))).ok());
  set = RuleSet::FromFiles({one, two}, options);
  ASSERT_FALSE(set.ok());
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("the rule name relu-twice is taken"));
  std::filesystem::remove(one);
  std::filesystem::remove(two);
}

class ShippedSetTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ShippedSetTest, IsFoundAndProved) {
  auto path = FindRuleFile(GetParam());
  ASSERT_TRUE(path.ok()) << path.status();
  auto rules = ReadRules(*path);
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_GE(rules->size(), 50u);
  LoadOptions options;
  options.allow_risky = options.allow_finite_only = true;
  auto set = RuleSet::FromFiles({*path}, options);
  ASSERT_TRUE(set.ok()) << set.status();
  size_t matchers = 0;
  for (const Rule& rule : *rules) matchers += OperatorRules(rule).size();
  EXPECT_EQ(set->matchers().size(), matchers);
  EXPECT_THAT(std::string(FindRuleFile("none").status().message()), HasSubstr("rules/none: not found at"));
}

INSTANTIATE_TEST_SUITE_P(Files, ShippedSetTest, ::testing::Values("core.rules", "laws.rules"), [](const auto& info) {
  return std::string(info.param, 0, std::string(info.param).find('.'));
});

}  // namespace
}  // namespace rewright
