// Tests what the steps of a path gained, and where they happened.
#include "tools/report/path_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/analytic.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;

class PathCostsTest : public ::testing::Test {
 protected:
  Value Exp(Value x) { return *arena_->Apply("exp", {x}); }
  const std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  const Value x_ = *arena_->AddInput("x", {DType::kFloat32, {4, 4}});
};

TEST_F(PathCostsTest, EveryStepHasItsOwnGain) {
  const Value a = Exp(x_), b = Exp(a), c = Exp(b);
  const Graph original(arena_, {x_}, {{c, "c"}});
  // As the search notes steps of the baseline: with the costs of the original.
  const std::vector<TraceStep> trace = {{-1, "first", "b", 3, 3, {{c, b}}}, {0, "second", "a", 3, 3, {{b, a}}}};
  const auto device = MakeAnalyticDevice("v100");
  ASSERT_TRUE(device.ok()) << device.status();
  const std::vector<double> costs = CostsAlong(original, trace, {0, 1}, **device, 100);
  const double one = *(*device)->Cost(original, (*device)->Partition(original)[0]);
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_NEAR(costs[0], 2 * one, 1e-12);
  EXPECT_NEAR(costs[1], one, 1e-12);
  EXPECT_TRUE(std::isnan(CostsAlong(original, trace, {0, 1}, **device, -1)[0]));  // no time
}

TEST_F(PathCostsTest, AStepBelongsToTheChangeThatAnotherMadeOfItsResult) {
  const Value left = Exp(x_), middle = *arena_->Apply("tanh", {left}), end = Exp(middle);
  const Graph before(arena_, {x_}, {{end, "end"}});
  const Value first = *arena_->Apply("abs", {left});  // takes the place of the middle, and is replaced itself
  const Value last = *arena_->Apply("neg", {left}), after_end = Exp(last);
  const Graph after(arena_, {x_}, {{after_end, "end"}});
  const GraphChanges changes = ChangesBetween(before, after);
  ASSERT_EQ(changes.regions, 1);
  const Value between = *arena_->Apply("sqrt", {x_});  // reads nothing that changed
  const std::vector<TraceStep> trace = {
      {-1, "made", "", 0, 0, {{between, first}}}, {0, "replaced", "", 0, 0, {{first, last}}}, {1, "far", "", 0, 0, {}}};
  EXPECT_THAT(RegionsAlong(*arena_, changes, trace, {0, 1, 2}), ElementsAre(0, 0, -1));
}

}  // namespace
}  // namespace rewright
