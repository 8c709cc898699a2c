// Tests which rules are used on narrow types: by class on 16-bit floats, and rules that only move elements on all
// types.
#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

constexpr char kTwice[] = "rule twice\n  relu(relu(x)) => relu(x)\n";
constexpr char kTransposed[] = "rule turned\n  transpose(transpose(x: ?t[m, n], perm=[1, 0]), perm=[1, 0]) => x\n";

// Returns the rule as a file holds it after a proof of that class.
std::string ProvedFor(const std::string& text, RuleClass rule_class, std::optional<RuleClass> halves = std::nullopt) {
  auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  Rule rule = rules->at(0);
  ProofRecord record;
  record.rule_class = rule_class;
  record.halves = halves;
  record.instances = 1;
  record.prover = ProverHash();
  const auto compiled = CompileRule(rule);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  const auto hash = RecordHash(**compiled, record);
  EXPECT_TRUE(hash.ok()) << hash.status();
  record.spec_hash = *hash;
  rule.proof = record;
  return PrintRule(rule);
}

size_t Matches(const std::string& rules, const std::string& dtype, const LoadOptions& options = {}) {
  const auto set = RuleSet::FromText(rules, "test", options);
  EXPECT_TRUE(set.ok()) << set.status() << "\n" << rules;
  const auto graph = ParseGraph(absl::StrCat("input x: ", dtype, "[2,3]\n",
                                             "%0 = relu(x)\n%1 = relu(%0)\n%2 = transpose(x, perm=[1,0])\n",
                                             "%3 = transpose(%2, perm=[1,0])\noutput a = %1\noutput b = %3\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return set->index().FindMatches(*graph).size();
}

TEST(NarrowTypes, AnExactRuleCountsAsReassociatingOnHalves) {
  const std::string exact = ProvedFor(kTwice, RuleClass::kExact);
  EXPECT_EQ(Matches(exact, "f32"), 1u);
  EXPECT_EQ(Matches(exact, "f16"), 1u);
  EXPECT_EQ(Matches(exact, "bf16"), 1u);
  const LoadOptions only_exact{.exact_only = true};
  EXPECT_EQ(Matches(exact, "f32", only_exact), 1u);
  EXPECT_EQ(Matches(exact, "f16", only_exact), 0u);
  const std::string reassociating = ProvedFor(kTwice, RuleClass::kReassociating);
  EXPECT_EQ(Matches(reassociating, "f32"), 1u);
  EXPECT_EQ(Matches(reassociating, "bf16"), 0u);
}

TEST(NarrowTypes, TheMeasuredClassDecides) {
  const std::string exact = ProvedFor(kTwice, RuleClass::kExact, RuleClass::kExact);
  EXPECT_THAT(exact, testing::HasSubstr("proved exact halves=exact max_rank="));
  EXPECT_EQ(Matches(exact, "f16", {.exact_only = true}), 1u);
  EXPECT_EQ(Matches(ProvedFor(kTwice, RuleClass::kReassociating, RuleClass::kReassociating), "f16"), 1u);
  const std::string risky = ProvedFor(kTwice, RuleClass::kExact, RuleClass::kNumericallyRisky);
  EXPECT_EQ(Matches(risky, "f32"), 1u);
  EXPECT_EQ(Matches(risky, "f16"), 0u);
  EXPECT_EQ(Matches(risky, "f16", {.allow_risky = true}), 1u);
}

TEST(NarrowTypes, ARecordThatWasAlteredIsRefused) {
  std::string text = ProvedFor(kTwice, RuleClass::kExact, RuleClass::kNumericallyRisky);
  text.replace(text.find("halves=numerically-risky"), 24, "halves=exact");
  const auto set = RuleSet::FromText(text, "test");
  EXPECT_THAT(set.status().message(), testing::HasSubstr("has a stale proof"));
}

TEST(NarrowTypes, RulesThatMoveElementsAreUsedOnEveryType) {
  const std::string turned = ProvedFor(kTransposed, RuleClass::kExact);
  for (const char* dtype : {"f32", "i64", "f16", "bf16", "i8", "u8", "i16", "u16", "u32", "u64"}) {
    EXPECT_EQ(Matches(turned, dtype, {.exact_only = true}), 1u) << dtype;
  }
  for (const char* dtype : {"i8", "u8", "u64"}) EXPECT_EQ(Matches(ProvedFor(kTwice, RuleClass::kExact), dtype), 0u);
}

// f32 represents the number, 16 bits round it: the proof covers only the former.
TEST(NarrowTypes, LiteralsThatSixteenBitsRoundAreNotMatched) {
  const char* law = "rule r\n  mul(x, 257) => mul(257, x)\n";
  const auto set = RuleSet::FromText(ProvedFor(law, RuleClass::kExact, RuleClass::kExact), "test");
  ASSERT_TRUE(set.ok()) << set.status();
  for (const auto& [dtype, matches] : {std::pair("f32", 1u), std::pair("f16", 0u), std::pair("bf16", 0u)}) {
    const auto parsed = ParseGraph(
        absl::StrCat("input x: ", dtype, "[3]\nconst %0: ", dtype, "[] = [257]\n%1 = mul(x, %0)\noutput y = %1\n"));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(set->index().FindMatches(*parsed).size(), matches) << dtype;
  }
}

}  // namespace
}  // namespace rewright
