#include "search/replay/all_sizes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

// The verdict on one rule, applied once to a graph in which N stands for the sizes of a name and M for 4 less.
std::string Verdict(const std::string& rule, const std::string& graph) {
  const std::vector<index::NamedSizes> sizes = index::SampleSizes({"n"}, {});
  index::SizeFit fit({"n"}, sizes);
  const RuleIndex rules = RulesFrom(rule);
  std::vector<Resized> samples;
  for (const index::NamedSizes& dims : sizes) {
    std::string text = graph;
    text = absl::StrReplaceAll(text, {{"N", absl::StrCat(dims.at("n"))}, {"M", absl::StrCat(dims.at("n") - 4)}});
    Resized sample{GraphFrom(text), {}, {}};
    sample.matches = rules.FindMatches(sample.graph);
    if (sample.matches.size() != 1) return absl::StrCat("matches at ", dims.at("n"), ": ", sample.matches.size());
    samples.push_back(std::move(sample));
  }
  return std::string(AppliesAtAllSizes(samples, fit).message());
}

constexpr char kTwoNegations[] = "input x: f32[N,8]\n%0 = neg(x)\n%1 = neg(%0)\noutput z = %1\n";

std::string RuleWhere(const std::string& condition) {
  return "rule r\n neg(neg(x[m, k])) => x\n" + (condition.empty() ? "" : " when " + condition + "\n");
}

TEST(AllSizes, ConditionsThatDoNotReadTheSizeHold) {
  EXPECT_EQ(Verdict(RuleWhere(""), kTwoNegations), "");
  EXPECT_EQ(Verdict(RuleWhere("k == 8"), kTwoNegations), "");
  EXPECT_EQ(Verdict(RuleWhere("k mod 4 == 0 and rank(x) == 2"), kTwoNegations), "");
}

TEST(AllSizes, ConditionsThatHoldFromOneOn) {
  EXPECT_EQ(Verdict(RuleWhere("m >= 1"), kTwoNegations), "");
  EXPECT_EQ(Verdict(RuleWhere("m + k > 8"), kTwoNegations), "");
  EXPECT_EQ(Verdict(RuleWhere("m * k mod k == 0"), kTwoNegations), "");
  EXPECT_EQ(Verdict(RuleWhere("not (m < 1)"), kTwoNegations), "");
  EXPECT_EQ(Verdict(RuleWhere("dim(x, 0) == m or k == 3"), kTwoNegations), "");
}

// Each holds at all samples.
TEST(AllSizes, ConditionsThatHoldAtTheSamplesAlone) {
  for (const char* condition :
       {"m >= 2", "m > 3", "m < 1000", "m mod 4 != 0 ", "m != 4", "k < m + 4", "max(m, 2) == m"}) {
    EXPECT_EQ(Verdict(RuleWhere(condition), kTwoNegations), "a condition of rule r reads the size") << condition;
  }
}

TEST(AllSizes, SizesOfRulesAreAtLeastOne) {
  EXPECT_EQ(Verdict(RuleWhere(""), "input x: f32[M,8]\n%0 = neg(x)\n%1 = neg(%0)\noutput z = %1\n"),
            "rule r needs sizes that are at least 1");
}

// The constant is positive at all samples, but another at each.
TEST(AllSizes, ElementsThatDependOnTheSizeAreNotKnown) {
  constexpr char kDivision[] =
      "rule r\n div(x[m, k], c[1]) => mul(x, div(1[1], c))\n when constant(c) and positive(c)\n";
  EXPECT_EQ(Verdict(kDivision, "input x: f32[N,8]\nconst %0: f32[1] = [2]\n%1 = div(x, %0)\noutput z = %1\n"), "");
  EXPECT_EQ(Verdict(kDivision, "input x: f32[N,8]\nconst %0: f32[1] = [N]\n%1 = div(x, %0)\noutput z = %1\n"),
            "a condition of rule r reads the size");
}

}  // namespace
}  // namespace rewright
