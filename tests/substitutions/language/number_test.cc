#include "substitutions/language/number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/match/applier.h"
#include "substitutions/match/matcher.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr int64_t k2To53 = int64_t{1} << 53;

std::shared_ptr<const CompiledRule> CompiledText(const std::string& text) {
  const auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  const auto rule = CompileRule(rules->at(0));
  EXPECT_TRUE(rule.ok()) << rule.status();
  return *rule;
}

// Returns the graph after the rule's only match; empty if there is none.
std::string Applied(const std::string& rule, const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const Matcher matcher(CompiledText(rule), DomainLimits{});
  const std::vector<Match> matches = matcher.FindMatches(*graph);
  if (matches.size() != 1) return "";
  const auto after = ApplyMatch(*graph, matches[0]);
  EXPECT_TRUE(after.ok()) << after.status();
  return after.ok() ? PrintGraph(*after) : "";
}

Tensor Int64s(const std::vector<int64_t>& values) { return Tensor::Int64s(values); }

TEST(AllElementsEqual, IsExactForIntegers) {
  EXPECT_TRUE(AllElementsEqual(Int64s({k2To53 + 1, k2To53 + 1}), k2To53 + 1));
  EXPECT_FALSE(AllElementsEqual(Int64s({k2To53, k2To53 + 1}), k2To53));
  EXPECT_FALSE(AllElementsEqual(Int64s({k2To53 + 1}), static_cast<double>(k2To53)));
  EXPECT_TRUE(AllElementsSame(Int64s({k2To53 + 1, k2To53 + 1})));
  EXPECT_FALSE(AllElementsSame(Int64s({k2To53, k2To53 + 1})));
}

TEST(AllElementsEqual, TakesTheNearestNumberOfTheType) {
  EXPECT_TRUE(AllElementsEqual(Tensor::Scalar(DType::kFloat32, 16777216), int64_t{16777217}));
  EXPECT_FALSE(AllElementsEqual(Tensor::Scalar(DType::kFloat64, 16777216), int64_t{16777217}));
  EXPECT_TRUE(AllElementsEqual(Tensor::Scalar(DType::kFloat32, 0.1), 0.1));
  EXPECT_TRUE(AllElementsEqual(Tensor::Scalar(DType::kFloat32, -0.0), int64_t{0}));
  EXPECT_FALSE(AllElementsSame(Tensor::FromVector<double>(DType::kFloat32, {2}, {0.0, -0.0})));
}

TEST(HasNumber, LooksAtTheEndsOfTypes) {
  EXPECT_TRUE(HasNumber(DType::kInt32, int64_t{2147483647}));
  EXPECT_FALSE(HasNumber(DType::kInt32, int64_t{2147483648}));
  EXPECT_TRUE(HasNumber(DType::kInt64, INT64_MIN));
  EXPECT_FALSE(HasNumber(DType::kInt64, 1.0));
  EXPECT_FALSE(HasNumber(DType::kBool, int64_t{2}));
  EXPECT_FALSE(HasNumber(DType::kFloat32, 1e60));
  EXPECT_TRUE(HasNumber(DType::kFloat64, 1e60));
}

constexpr char kAddOfSub[] = "rule r add(sub(x: i64[n], ?a: i64), ?a: i64) => x";

TEST(IntegerConstants, AreMatchedAsIntegers) {
  const auto graph = [](const std::string& a, const std::string& b) {
    return "input x: i64[2]\nconst %0: i64[] = [" + a + "]\n%1 = sub(x, %0)\nconst %2: i64[] = [" + b +
           "]\n%3 = add(%1, %2)\noutput y = %3\n";
  };
  EXPECT_EQ(Applied(kAddOfSub, graph("9007199254740992", "9007199254740993")), "");
  EXPECT_NE(Applied(kAddOfSub, graph("9007199254740993", "9007199254740993")), "");
}

TEST(IntegerConstants, OfDifferentElementsAreNoNumber) {
  const std::string text =
      "input x: i64[2]\nconst %0: i64[2] = [9007199254740992,9007199254740993]\n"
      "%1 = sub(x, %0)\n%2 = add(%1, %0)\noutput y = %2\n";
  EXPECT_EQ(Applied(kAddOfSub, text), "");
}

TEST(IntegerConstants, AreAppliedAsIntegers) {
  const std::string rule = "rule r add(add(x: i64[n], ?a: i64), ?b: i64) => add(x, scalar(?a + ?b): i64[n])";
  const auto sum = [&](const std::string& a, const std::string& b) {
    return Applied(rule, "input x: i64[1]\nconst %0: i64[] = [" + a + "]\n%1 = add(x, %0)\nconst %2: i64[] = [" + b +
                             "]\n%3 = add(%1, %2)\noutput y = %3\n");
  };
  EXPECT_THAT(sum("9007199254740992", "1"), HasSubstr("[9007199254740993]"));
  EXPECT_THAT(sum("9223372036854775807", "1"), HasSubstr("[-9223372036854775808]"));
}

TEST(IntegerLiterals, AreThemselves) {
  const std::string rule = "rule r add(x: i64[n], 9007199254740993: i64) => sub(x, -9223372036854775808: i64[n])";
  const auto graph = [](const std::string& a) {
    return "input x: i64[1]\nconst %0: i64[] = [" + a + "]\n%1 = add(x, %0)\noutput y = %1\n";
  };
  EXPECT_EQ(Applied(rule, graph("9007199254740992")), "");
  EXPECT_THAT(Applied(rule, graph("9007199254740993")), HasSubstr("[-9223372036854775808]"));
}

// Returns the error of a rule, with its place.
std::string ErrorOf(const std::string& text) {
  const auto rules = ParseRules(text, "test");
  if (!rules.ok()) return std::string(rules.status().message());
  const auto rule = CompileRule(rules->at(0));
  return rule.ok() ? "" : std::string(rule.status().message());
}

TEST(IntegerLiterals, ThatTheirTypeLacksAreErrors) {
  EXPECT_THAT(ErrorOf("rule r add(x: i32[n], 2147483648: i32) => x"),
              HasSubstr("test:1:23: rule r: found 2147483648, expected a number of type i32"));
  EXPECT_EQ(ErrorOf("rule r add(x: i32[n], -2147483648: i32) => neg(x)"), "");
  EXPECT_THAT(ErrorOf("rule r add(x: i64[n], 0.5: i64) => x"), HasSubstr("found 0.5, expected a number of type i64"));
  EXPECT_THAT(ErrorOf("rule r logical_and(x: bool[n], 2: bool) => x"), HasSubstr("expected a number of type bool"));
  EXPECT_THAT(ErrorOf("rule r add(x: i64[n], 9223372036854775808: i64) => x"), HasSubstr("test:1:23"));
  EXPECT_THAT(ErrorOf("rule r add(x: i64[n], 9223372036854775809: i64) => x"), HasSubstr("test:1:23"));
  EXPECT_THAT(ErrorOf("rule r add(x: i64[n], - -9223372036854775808: i64) => x"), HasSubstr("64 bits"));
  EXPECT_THAT(ErrorOf("rule r add(x[n], 1e60) => x"), HasSubstr("expected a number of type f32"));
}

}  // namespace
}  // namespace rewright
