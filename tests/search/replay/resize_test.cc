#include "search/replay/resize.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "substitutions/match/applier.h"
#include "tests/search/fake_device_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two tensors of n rows; the second one goes through an operator that admits only even sizes.
std::string GraphText(int n) {
  const std::string type = absl::StrCat("f32[", n, ",8]");
  return absl::StrCat("input x: ", type, "\ninput y: ", type, R"(
  %0 = relu(x)
  %1 = relu(%0)
  %2 = exp(y)
  %3 = neg(%2)
  %4 = neg(%3)
  %5 = relu(%4)
  %6 = relu(%5)
  %7 = add(%1, %6)
  output z = %7
)");
}
constexpr char kRules[] =
    "rule relu-twice\n relu(relu(x)) => relu(x)\n"
    "rule neg-twice-of-even\n neg(neg(x[m, k])) => x\n  when m mod 2 == 0\n"
    "rule relu-of-exp\n relu(exp(x)) => exp(x)\n";

class ResizeTest : public ::testing::Test {
 protected:
  ResizeTest() : graph_(GraphFrom(GraphText(4))), rules_(RulesFrom(kRules)) {
    Step("neg-twice-of-even");
    Step("relu-of-exp");
    Step("relu-of-exp");
    Step("relu-twice");
  }

  // Adds the first match of the rule.
  void Step(const std::string& rule) {
    const Graph now = steps_.empty() ? graph_ : Replayed().At(static_cast<int>(steps_.size()));
    const std::vector<Match> matches = FindMatcher(rules_, rule)->FindMatches(now);
    ASSERT_FALSE(matches.empty()) << rule;
    const absl::StatusOr<Graph> next = ApplyMatch(now, matches[0]);
    ASSERT_TRUE(next.ok()) << next.status();
    ReplayStep& step = steps_.emplace_back();
    step.rule = rule;
    step.node = now.index(matches[0].roots[0].node);
    step.graph_hash = next->CanonicalHash();
  }

  Replay Replayed() const { return Replay::Run(graph_, steps_, rules_).value(); }

  Resized At(int n) const { return ReplayResized(Replayed(), steps_, GraphFrom(GraphText(n)), rules_).value(); }

  Graph graph_;
  RuleIndex rules_;
  std::vector<ReplayStep> steps_;
};

TEST_F(ResizeTest, TakesEveryStepWhoseConditionsHold) {
  ASSERT_THAT(steps_, SizeIs(4));
  for (int n : {4, 2, 100}) {
    const Resized resized = At(n);
    EXPECT_THAT(resized.left_out, IsEmpty()) << n;
    EXPECT_EQ(resized.graph.num_applications(), 3) << n;
    EXPECT_EQ(resized.graph.type(resized.graph.outputs()[0].value).shape, (Shape{n, 8}));
  }
  EXPECT_EQ(At(4).graph.CanonicalHash(), Replayed().At(4).CanonicalHash());
}

TEST_F(ResizeTest, LeavesOutWhatDoesNotApplyAndWhatBuildsOnIt) {
  ASSERT_THAT(steps_, SizeIs(4));
  const Resized resized = At(5);
  // Without the first step relu stands before a negation; the last step is elsewhere.
  EXPECT_THAT(resized.left_out, ElementsAre(0, 1, 2));
  EXPECT_EQ(resized.graph.num_applications(), 7);
}

TEST_F(ResizeTest, ReplacementsInTextHoldAtTheirOwnSizes) {
  steps_.resize(1);
  steps_[0].replacement = "input n2.0: f32[4,8]\noutput n5.0 = n2.0\n";
  const Graph other = GraphFrom(GraphText(6));
  std::vector<ReplayStep> none;
  const Replay made = Replay::Run(graph_, none, rules_).value();
  const Resized resized = ReplayResized(made, steps_, other, rules_).value();
  EXPECT_THAT(resized.left_out, ElementsAre(0));
  EXPECT_EQ(resized.graph.CanonicalHash(), other.CanonicalHash());
}

TEST_F(ResizeTest, ARuleThatIsGoneIsAnError) {
  const Replay made = Replayed();
  steps_[1].rule = "gone";
  EXPECT_EQ(ReplayResized(made, steps_, GraphFrom(GraphText(6)), rules_).status().message(),
            "the rules have no rule gone");
}

}  // namespace
}  // namespace rewright
