#include "substitutions/match/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/match/applier.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::shared_ptr<const CompiledRule> Compile(const std::string& text) {
  auto rules = ParseRules(text, "test");
  EXPECT_TRUE(rules.ok()) << rules.status();
  auto rule = CompileRule(rules->at(0));
  EXPECT_TRUE(rule.ok()) << rule.status();
  return *rule;
}

// ---------------------------------------------------------------- cases in a file

struct Case {
  std::string name, rule, before, after;
};

std::vector<Case> ReadCases() {
  std::ifstream file(std::string(REWRIGHT_SOURCE_DIR) + "/tests/cases/rules/matching.txt");
  std::vector<Case> cases;
  std::string line;
  int part = 0;
  while (std::getline(file, line)) {
    if (line.rfind("=== ", 0) == 0) {
      cases.push_back(Case{line.substr(4), "", "", ""});
      part = 0;
    } else if (line == "---") {
      ++part;
    } else if (!cases.empty()) {
      Case& last = cases.back();
      (part == 0 ? last.rule : part == 1 ? last.before : last.after) += line + "\n";
    }
  }
  return cases;
}

std::string Trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

TEST(MatcherTest, CasesOfTheFile) {
  const std::vector<Case> cases = ReadCases();
  EXPECT_GE(cases.size(), 30u);
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const Matcher matcher(Compile(test.rule));
    const Graph graph = GraphOf(test.before);
    const std::vector<Match> matches = matcher.FindMatches(graph);
    std::string after = "no match";
    if (!matches.empty()) {
      auto applied = ApplyMatch(graph, matches[0]);
      after = applied.ok() ? PrintGraph(CopyGraph(*applied)) : applied.status().ToString();
    }
    EXPECT_EQ(Trimmed(after), Trimmed(test.after));
  }
}

// ---------------------------------------------------------------- the interface

constexpr char kMerge[] =
    "rule r { matmul(x[b.., m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
    "=> split(matmul(x, concat(y, z, axis=1)), axis=len(b) + 1, sizes=[n1, n2])";

constexpr char kThreeProducts[] =
    "input x: f32[3,4]\nstate a: f32[4,5]\nstate b: f32[4,6]\nstate c: f32[4,7]\n"
    "%1 = matmul(x, a)\n%2 = matmul(x, b)\n%3 = matmul(x, c)\n"
    "output p = %1\noutput q = %2\noutput r = %3\n";

TEST(MatcherTest, EveryPairIsFoundOnce) {
  const Matcher matcher(Compile(kMerge));
  EXPECT_TRUE(matcher.rule().symmetric(0));
  EXPECT_THAT(matcher.FindMatches(GraphOf(kThreeProducts)), SizeIs(3));
}

TEST(MatcherTest, AConditionOnOneOutputKeepsBothOrders) {
  const Matcher matcher(Compile(std::string(kMerge) + " when n1 <= n2"));
  EXPECT_FALSE(matcher.rule().symmetric(0));
  EXPECT_THAT(matcher.FindMatches(GraphOf(kThreeProducts)), SizeIs(3));
}

TEST(MatcherTest, BindingsTellSizesAndPlace) {
  const Matcher matcher(Compile(kMerge));
  const Graph graph = GraphOf(kThreeProducts);
  const Match match = matcher.FindMatches(graph)[0];
  EXPECT_EQ(match.Describe(), "b..=[], m=3, k=4, n1=5, n2=6");
  EXPECT_EQ(match.roots[0], graph.outputs()[0].value);
  EXPECT_EQ(match.roots[1], graph.outputs()[1].value);
}

TEST(MatcherTest, MatchesAtANode) {
  const Matcher matcher(Compile("rule r relu(relu(x)) => relu(x)"));
  const Graph graph = GraphOf("input x: f32[2]\n%1 = relu(x)\n%2 = relu(%1)\n%3 = relu(%2)\noutput p = %3\n");
  std::vector<Match> matches;
  matcher.MatchAt(graph, graph.nodes()[1], &matches);
  EXPECT_THAT(matches, SizeIs(0));
  matcher.MatchAt(graph, graph.nodes()[2], &matches);
  EXPECT_THAT(matches, SizeIs(1));
}

TEST(MatcherTest, BeyondTheProvedDomainNothingMatches) {
  DomainLimits limits;
  limits.max_rank = 2;
  const auto rule = Compile("rule r relu(relu(x)) => relu(x)");
  const Graph graph = GraphOf("input x: f32[2,3,4]\n%1 = relu(x)\n%2 = relu(%1)\noutput p = %2\n");
  EXPECT_THAT(Matcher(rule, limits).FindMatches(graph), SizeIs(0));
  limits.max_rank = 3;
  EXPECT_THAT(Matcher(rule, limits).FindMatches(graph), SizeIs(1));
}

TEST(MatcherTest, WeightsKeepTheirValuesAtInferenceOnly) {
  const auto rule = Compile("rule r mul(x[b..], 1) => x");
  Tensor one = Tensor::FromVector<float>(DType::kFloat32, {2}, {1, 1});
  auto graph = ParseGraph("input x: f32[2]\nstate w: f32[2]\n%1 = mul(x, w)\noutput p = %1\n", {{"w", one}});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Matcher(rule).FindMatches(*graph), SizeIs(1));
  const Graph training = CopyGraph(*graph, Mode::kTraining);
  EXPECT_THAT(Matcher(rule).FindMatches(training), SizeIs(0));
}

TEST(MatcherTest, FiniteLooksAtEveryElement) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto matches = [](const char* condition, const std::vector<double>& elements) {
    const Tensor w = Tensor::FromVector<float>(DType::kFloat32, {2},
                                               {static_cast<float>(elements[0]), static_cast<float>(elements[1])});
    auto graph = ParseGraph("input x: f32[2]\nstate w: f32[2]\n%1 = sub(x, w)\noutput p = %1\n", {{"w", w}});
    EXPECT_TRUE(graph.ok()) << graph.status();
    const auto rule = Compile(absl::StrCat("rule r sub(x[n], y[n]) => add(x, neg(y)) when ", condition));
    return Matcher(rule).FindMatches(*graph).size();
  };
  EXPECT_EQ(matches("finite(y)", {1, -2}), 1u);
  EXPECT_EQ(matches("finite(y)", {1, kInfinity}), 0u);
  EXPECT_EQ(matches("finite(y)", {std::nan(""), 1}), 0u);
  EXPECT_EQ(matches("finite(x)", {1, 1}), 0u) << "an input is not known";
  EXPECT_EQ(matches("positive(y)", {1, 2}), 1u);
  EXPECT_EQ(matches("positive(y)", {1, kInfinity}), 0u) << "positive numbers are finite";
}

TEST(MatcherTest, OutputsThatStayAreNotReplaced) {
  const Matcher matcher(Compile("rule r max(x[b..], 0) => relu(x)"));
  const Graph graph = GraphOf("input x: f32[2]\nconst %1: f32[] = [0]\n%2 = max(x, %1)\noutput p = %2\n");
  const auto map = BuildReplacement(graph, matcher.FindMatches(graph).at(0));
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->size(), 1u);
  const Matcher same(Compile("rule r add(x[b..], y[b..]) => add(y, x)"));
  const Graph twice = GraphOf("input x: f32[2]\n%2 = add(x, x)\noutput p = %2\n");
  const auto nothing = BuildReplacement(twice, same.FindMatches(twice).at(0));
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_TRUE(nothing->empty());
}

TEST(MatcherTest, AWrongRuleIsAnErrorThatNamesItAndThePlace) {
  const Matcher matcher(Compile("rule wrong relu(x[a, b]) => reshape(relu(x), shape=[a + 1, b])"));
  const Graph graph = GraphOf("input x: f32[2,3]\n%1 = relu(x)\noutput p = %1\n");
  const auto map = BuildReplacement(graph, matcher.FindMatches(graph).at(0));
  ASSERT_FALSE(map.ok());
  EXPECT_THAT(std::string(map.status().message()), HasSubstr("rule wrong at a=2, b=3: reshape: "));
}

TEST(RuleIndexTest, FindsTheMatchesOfAllRules) {
  const RuleIndex index({std::make_shared<Matcher>(Compile("rule a relu(relu(x)) => relu(x)")),
                         std::make_shared<Matcher>(Compile("rule b neg(neg(x)) => x")),
                         std::make_shared<Matcher>(Compile("rule c relu(neg(x)) => relu(neg(x))"))});
  const Graph graph = GraphOf("input x: f32[2]\n%1 = neg(x)\n%2 = relu(%1)\n%3 = relu(%2)\noutput p = %3\n");
  std::vector<std::string> names;
  for (const Match& match : index.FindMatches(graph)) names.push_back(match.rule->name());
  EXPECT_THAT(names, ElementsAre("c", "a"));
}

TEST(MatcherTest, ThreadsShareAMatcher) {
  const Matcher matcher(Compile("rule r relu(relu(x)) => relu(x)"));
  std::vector<std::thread> threads;
  std::atomic<int> found{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int rank = 0; rank < 5; ++rank) {
        std::string shape;
        for (int axis = 0; axis < (rank + t) % 5; ++axis) shape += axis > 0 ? ",2" : "2";
        auto graph = ParseGraph("input x: f32[" + shape + "]\n%1 = relu(x)\n%2 = relu(%1)\noutput p = %2\n");
        found += static_cast<int>(matcher.FindMatches(*graph).size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, 20);
}

}  // namespace
}  // namespace rewright
