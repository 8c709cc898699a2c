#include "search/replay/replay.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr char kReplayed[] = R"(
  input x: f32[4,8]
  state w: f32[8,8]
  state v: f32[8,8]
  %0 = relu(x)
  %1 = relu(%0)
  %2 = matmul(%1, w)
  %3 = matmul(%1, v)
  %4 = exp(%2)
  %5 = add(%4, %3)
  output y = %5
)";
constexpr char kReplayRules[] =
    "rule relu-twice\n relu(relu(x)) => relu(x)\n"
    "rule merge\n { matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
    " => split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2])\n";

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() : graph_(GraphFrom(kReplayed)), rules_(RulesFrom(kReplayRules)) {
    FakeDevice device({{"split", 0.0}});
    SearchOptions options;
    options.candidates = 1;
    result_ = RunSearch(graph_, rules_, device, options);
    absl::StatusOr<std::vector<ReplayStep>> steps =
        MakeReplay(graph_, result_.trace, PathTo(result_.trace, result_.candidates[0].step), rules_);
    EXPECT_TRUE(steps.ok()) << steps.status();
    if (steps.ok()) steps_ = *steps;
  }

  std::string Error() {
    const Graph fresh = GraphFrom(kReplayed);
    return std::string(Replay::Run(fresh, steps_, rules_).status().message());
  }

  Graph graph_;
  RuleIndex rules_;
  SearchResult result_;
  std::vector<ReplayStep> steps_;
};

TEST_F(ReplayTest, MakesTheGraphsAgainInAnotherArena) {
  ASSERT_EQ(steps_.size(), 2u);
  const Graph fresh = GraphFrom(kReplayed);
  const absl::StatusOr<Replay> replay = Replay::Run(fresh, steps_, rules_);
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->num_steps(), 2);
  EXPECT_EQ(replay->At(0).CanonicalHash(), graph_.CanonicalHash());
  EXPECT_EQ(replay->At(2).CanonicalHash(), result_.candidates[0].graph.CanonicalHash());
  EXPECT_NE(replay->At(1).CanonicalHash(), replay->At(2).CanonicalHash());
}

TEST_F(ReplayTest, EndsWhereNoTimeIsLeft) {
  int asked = 0;
  const auto stop = [&] { return ++asked == 2; };
  EXPECT_TRUE(absl::IsDeadlineExceeded(Replay::Run(GraphFrom(kReplayed), steps_, rules_, stop).status()));
  EXPECT_EQ(asked, 2);
  const std::vector<int> path = PathTo(result_.trace, result_.candidates[0].step);
  EXPECT_TRUE(absl::IsDeadlineExceeded(MakeReplay(graph_, result_.trace, path, rules_, [] { return true; }).status()));
}

TEST_F(ReplayTest, NamesTheStepThatFails) {
  const std::vector<ReplayStep> steps = steps_;
  steps_[1].rule = "gone";
  EXPECT_EQ(Error(), "step 2 of 2: the rules have no rule gone");
  steps_ = steps;
  steps_[0].match = 7;
  EXPECT_THAT(Error(), HasSubstr("step 1 of 2: rule"));
  EXPECT_THAT(Error(), HasSubstr("does not match at node"));
  steps_ = steps;
  steps_[0].node = -1;
  EXPECT_THAT(Error(), HasSubstr("does not match at node -1"));
  steps_ = steps;
  ++steps_[1].graph_hash;
  EXPECT_THAT(Error(), HasSubstr("step 2 of 2: rule"));
  EXPECT_THAT(Error(), HasSubstr("makes another graph than it did"));
}

TEST_F(ReplayTest, AStepOfAnotherRuleIsWrittenDownAsText) {
  std::vector<TraceStep> trace = result_.trace;
  const std::vector<int> path = PathTo(trace, result_.candidates[0].step);
  for (int step : path) trace[step].rule = "unknown";
  const auto steps = MakeReplay(graph_, trace, path, rules_);
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 2u);
  steps_ = *steps;
  for (const ReplayStep& step : steps_) EXPECT_THAT(step.replacement, HasSubstr("output n"));
  EXPECT_EQ(Error(), "");
  // Damaged.
  const auto error = [&](const std::string& from, const std::string& to) {
    steps_ = *steps;
    std::string& text = steps_[1].replacement;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    text.replace(at, from.size(), to);
    return Error();
  };
  const std::string text = (*steps)[1].replacement;
  const std::string input = text.substr(6, text.find(':') - 6);  // `input n1.0: ..`
  EXPECT_THAT(error(text, "nonsense"), HasSubstr("step 2 of 2: replacement: "));
  EXPECT_THAT(error("input " + input, "input n99.0"), HasSubstr("step 2 of 2: replacement: "));
  EXPECT_THAT(error(text, "input n99.0: f32[4,8]\noutput n0.0 = n99.0\n"), HasSubstr("found n99.0, expected a value"));
  EXPECT_THAT(error(text, "input n0.1: f32[4,8]\noutput n0.0 = n0.1\n"), HasSubstr("found n0.1, expected a value"));
  EXPECT_THAT(error(text, "input n00.0: f32[4,8]\noutput n0.0 = n00.0\n"), HasSubstr("found n00.0, expected a value"));
  EXPECT_THAT(error(text, "input n0.0: f32[4,9]\noutput n0.0 = n0.0\n"),
              HasSubstr("n0.0 is f32[4,9], expected f32[4,8]"));
  EXPECT_THAT(error(text, "state w: f32[4,8]\noutput n0.0 = w\n"), HasSubstr("found state w, expected inputs alone"));
  EXPECT_THAT(error(text, "input n0.0: f32[4,8]\n%0 = relu(n0.0)\noutput n0.0 = %0\noutput n0.0 = n0.0\n"),
              HasSubstr("n0.0"));
  EXPECT_THAT(error(text, "input n0.0: f32[4,8]\n%0 = relu(n0.0)\noutput y = %0\n"),
              HasSubstr("found y, expected a value"));
  EXPECT_THAT(error(text, "input n0.0: f32[4,8]\n%0 = exp(n0.0)\noutput n0.0 = %0\n"),
              HasSubstr("the replacement by unknown makes another graph than it did"));
}

TEST(ReplayOfEqsatTest, ExtractionsAreTakenApartIntoMatches) {
  FakeDevice device({{"exp", 0.01}, {"mul", 0.02}, {"tanh", 0.005}});
  const RuleIndex rules = RulesFrom(R"(
rule split-exp
  exp(x) => mul(exp(mul(x, 0.5)), exp(mul(x, 0.5)))
rule merge-exp
  mul(mul(exp(mul(x, 0.5)), exp(mul(x, 0.5))), y) => tanh(x)
)");
  const Graph graph = GraphFrom(Detours(4));
  SearchOptions options;
  options.strategy = SearchStrategy::kEqsat;
  const SearchResult result = RunSearch(graph, rules, device, options);
  const std::vector<int> path = PathTo(result.trace, result.candidates[0].step);
  const auto steps = MakeReplay(graph, result.trace, path, rules);
  ASSERT_TRUE(steps.ok()) << steps.status();
  // The step names the rule that made the extracted nodes; the other rule made its left side.
  for (const ReplayStep& step : *steps) EXPECT_LT(step.made_by, static_cast<int>(path.size()));
  const auto replay = Replay::Run(GraphFrom(Detours(4)), *steps, rules);
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->At(replay->num_steps()).CanonicalHash(), result.candidates[0].graph.CanonicalHash());
}

TEST(ReplayOfEqsatTest, SeveralRulesMakeSeveralSteps) {
  FakeDevice device({{"exp", 3}, {"tanh", 1}, {"relu", 2}, {"abs", 1}});
  const RuleIndex rules = RulesFrom("rule r exp(relu(x)) => tanh(relu(x))\nrule s relu(neg(x)) => abs(neg(x))\n");
  const std::string text = "input x: f32[2]\n%0 = neg(x)\n%1 = relu(%0)\n%2 = exp(%1)\noutput y = %2\n";
  const Graph graph = GraphFrom(text);
  const SearchResult by_hand = RunSearch(graph, rules, device);
  // An extraction makes both at once.
  TraceStep both;
  both.rule = "r + s";
  const Graph& best = by_hand.candidates[0].graph;
  both.replacement = {{graph.outputs()[0].value, best.outputs()[0].value}};
  const auto steps = MakeReplay(graph, {both}, {0}, rules);
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].rule, "r");
  EXPECT_EQ((*steps)[1].rule, "s");
  EXPECT_EQ((*steps)[0].replacement + (*steps)[1].replacement, "");
  EXPECT_EQ((*steps)[1].graph_hash, best.CanonicalHash());
  const auto replay = Replay::Run(GraphFrom(text), *steps, rules);
  ASSERT_TRUE(replay.ok()) << replay.status();
}

TEST(FirstBadStepTest, FindsEveryStepInFewQuestions) {
  for (int steps = 0; steps <= 40; ++steps) {
    for (int first = 1; first <= steps + 1; ++first) {
      int questions = 0;
      const auto found = FirstBadStep(steps, [&](int k) {
        EXPECT_TRUE(k >= 1 && k <= steps);
        ++questions;
        return absl::StatusOr<bool>(k >= first);
      });
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(*found, first <= steps ? first : 0);
      EXPECT_LE(questions, 7);
    }
  }
  EXPECT_FALSE(FirstBadStep(3, [](int) { return absl::StatusOr<bool>(absl::InternalError("no")); }).ok());
}

}  // namespace
}  // namespace rewright
