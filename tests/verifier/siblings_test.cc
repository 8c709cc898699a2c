// The foundations of rules about any number of siblings (docs/decisions/062): the facts about lists up to the largest
// number, and the instances for one, two, three and seven.
#include "substitutions/language/siblings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/verifier/rules_util.h"
#include "verifier/check/bounded/bounded_check.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

// x0[a.., n0, c..], .. or n0, ..
std::string Listed(int count, const std::string& separator, const char* before, const char* after = "") {
  std::vector<std::string> items;
  for (int i = 0; i < count; ++i) items.push_back(absl::StrCat(before, i, after));
  return absl::StrJoin(items, separator);
}

// y1 ++ .. ++ yp = (y1 ++ .. ++ y(p-1)) ++ yp
TEST(SiblingsTest, ConcatenationsOfAllAreConcatenationsOfTwo) {
  for (int p = 3; p <= kMostSiblings; ++p) {
    std::vector<std::string> operands;
    for (int i = 0; i < p; ++i) operands.push_back(absl::StrCat("x", i, "[a.., n", i, ", c..]"));
    const Rule rule =
        RuleOf(absl::StrCat("rule r concat(", absl::StrJoin(operands, ", "), ", axis=len(a)) => concat(concat(",
                            Listed(p - 1, ", ", "x"), ", axis=len(a)), x", p - 1, ", axis=len(a))"));
    const RuleVerdict verdict = ProveUnclassified(rule);
    EXPECT_EQ(verdict.verdict, Verdict::kProved) << p << ": " << verdict.reason;
    EXPECT_EQ(verdict.limits, DomainLimits()) << p;
  }
}

// The parts of n1, .., np are those of n1, .., n(p-1) of the first of two parts, and the second.
TEST(SiblingsTest, PartsOfAllArePartsOfTwo) {
  for (int p = 3; p <= kMostSiblings; ++p) {
    const std::string sizes = Listed(p, ", ", "n"), fewer = Listed(p - 1, ", ", "n");
    const Rule rule = RuleOf(absl::StrCat(
        "rule r let s = split(x[a.., ", Listed(p, " + ", "n"), ", c..], axis=len(a), sizes=[", sizes, "]) in { ",
        Listed(p, ", ", "s."), " } => let h = split(x, axis=len(a), sizes=[", Listed(p - 1, " + ", "n"), ", n", p - 1,
        "]) let t = split(h.0, axis=len(a), sizes=[", fewer, "]) in { ", Listed(p - 1, ", ", "t."), ", h.1 }"));
    const RuleVerdict verdict = ProveUnclassified(rule);
    EXPECT_EQ(verdict.verdict, Verdict::kProved) << p << ": " << verdict.reason;
    EXPECT_EQ(verdict.limits, DomainLimits()) << p;
  }
}

std::vector<Rule> SiblingRules() {
  std::vector<Rule> rules;
  for (const std::string& file : ShippedRuleFiles()) {
    const auto read = ReadRules(file);
    EXPECT_TRUE(read.ok()) << read.status();
    for (const Rule& rule : read.ok() ? *read : std::vector<Rule>()) {
      if (IsSiblingRule(rule)) rules.push_back(rule);
    }
  }
  return rules;
}

// The proof holds the instances for one and two; their consequences are true of four as well.
TEST(SiblingsTest, RulesOfTheFilesAreProvedForAnyNumber) {
  const std::vector<Rule> rules = SiblingRules();
  EXPECT_GE(rules.size(), 4u);
  for (const Rule& rule : rules) {
    const RuleVerdict whole = ProveUnclassified(rule), two = ProveUnclassified(ExpandSiblings(rule, 2)),
                      four = ProveUnclassified(ExpandSiblings(rule, 4));
    EXPECT_EQ(whole.verdict, Verdict::kProved) << rule.name << ": " << whole.reason;
    EXPECT_EQ(four.verdict, Verdict::kProved) << rule.name << ": " << four.reason;
    EXPECT_EQ(whole.instances, 4 * two.instances) << rule.name;  // of one, two, three and seven
    EXPECT_EQ(whole.limits, four.limits) << rule.name;
  }
}

// Each is false for one of the numbers alone.
TEST(SiblingsTest, FalseRulesAreRefuted) {
  // The bias is left out: for all.
  EXPECT_EQ(ProveUnclassified(
                RuleOf("rule r { add(matmul(x[m, k], y[k, n]), p[n]).. } => split(add(matmul(x, concat(y.., axis=1)), "
                       "mul(concat(p.., axis=0), 2)), axis=1, sizes=[n..])"))
                .verdict,
            Verdict::kRefuted);
  // This concatenates and splits rows, but siblings of a product are columns.
  EXPECT_NE(ProveUnclassified(
                RuleOf("rule r { matmul(x[k, k], y[k, k2]).. } => split(matmul(x, concat(y.., axis=0)), axis=0, "
                       "sizes=[k2..])"))
                .verdict,
            Verdict::kProved);
  // True of one sibling, and of several only where each row is scaled by itself: a softmax over all columns.
  const RuleVerdict softmax = ProveUnclassified(
      RuleOf("rule r { softmax(matmul(x[m, k], y[k, n]), axis=1).. } => split(softmax(matmul(x, concat(y.., "
             "axis=1)), axis=1), axis=1, sizes=[n..])"));
  EXPECT_EQ(softmax.verdict, Verdict::kRefuted);
}

// Checks each of the numbers without the prover.
TEST(SiblingsTest, TheBoundedCheckAgrees) {
  for (const Rule& rule : SiblingRules()) {
    const auto compiled = CompileRule(rule);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    BoundedCheckOptions options;
    options.structures = 2;
    const auto derived = CheckAtSmallSizes(**compiled, options);
    ASSERT_TRUE(derived.ok()) << derived.status();
    EXPECT_EQ(derived->verdict, BoundedVerdict::kConfirmed) << rule.name << ": " << derived->reason;
    const auto two = CheckAtSmallSizes(**CompileRule(ExpandSiblings(rule, 2)), options);
    EXPECT_GT(derived->applications, two->applications) << rule.name;
  }
}

}  // namespace
}  // namespace rewright
