#include "search/replay.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr char kGraph[] = R"(
  input x: f32[4,8]
  weight w: f32[8,8]
  weight v: f32[8,8]
  %0 = relu(x)
  %1 = relu(%0)
  %2 = matmul(%1, w)
  %3 = matmul(%1, v)
  %4 = exp(%2)
  %5 = add(%4, %3)
  output y = %5
)";
constexpr char kRules[] =
    "rule relu-twice\n relu(relu(x)) => relu(x)\n"
    "rule merge\n { matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }\n"
    " => split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2])\n";

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() : graph_(GraphFrom(kGraph)), rules_(RulesFrom(kRules)) {
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
    const Graph fresh = GraphFrom(kGraph);
    return std::string(Replay::Run(fresh, steps_, rules_).status().message());
  }

  Graph graph_;
  RuleIndex rules_;
  SearchResult result_;
  std::vector<ReplayStep> steps_;
};

TEST_F(ReplayTest, MakesTheGraphsAgainInAnotherArena) {
  ASSERT_EQ(steps_.size(), 2u);
  const Graph fresh = GraphFrom(kGraph);
  const absl::StatusOr<Replay> replay = Replay::Run(fresh, steps_, rules_);
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->num_steps(), 2);
  EXPECT_EQ(replay->At(0).CanonicalHash(), graph_.CanonicalHash());
  EXPECT_EQ(replay->At(2).CanonicalHash(), result_.candidates[0].graph.CanonicalHash());
  EXPECT_NE(replay->At(1).CanonicalHash(), replay->At(2).CanonicalHash());
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

TEST_F(ReplayTest, RefusesWhatIsNoMatch) {
  std::vector<TraceStep> trace = result_.trace;
  const std::vector<int> path = PathTo(trace, result_.candidates[0].step);
  trace[static_cast<size_t>(path[0])].rule = "merge" == trace[static_cast<size_t>(path[0])].rule ? "relu-twice" : "merge";
  EXPECT_THAT(std::string(MakeReplay(graph_, trace, path, rules_).status().message()), HasSubstr("is no match of its rule"));
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
