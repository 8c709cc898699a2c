#include "tools/report/graph_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

const TensorType kMatrix{DType::kFloat32, {4, 4}};

class GraphChangesTest : public ::testing::Test {
 protected:
  Value Add(const std::string& op, std::vector<Value> operands, const std::string& name = "", Attrs attrs = {}) {
    const auto value = arena_->Apply(op, std::move(operands), std::move(attrs));
    EXPECT_TRUE(value.ok()) << value.status();
    if (!name.empty()) arena_->SetName(*value, name);
    return *value;
  }
  Graph Of(Value y) { return Graph(arena_, {x_}, {{y, "y"}}); }

  const std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  const Value x_ = *arena_->AddInput("x", kMatrix);
};

TEST_F(GraphChangesTest, OfAGraphAndItself) {
  const Graph graph = Of(Add("relu", {Add("exp", {x_})}));
  const GraphChanges changes = ChangesBetween(graph, graph);
  EXPECT_EQ(changes.regions, 0);
  EXPECT_THAT(changes.before.partner, ElementsAre(0, 1, 2));
  EXPECT_THAT(changes.after.region, Each(-1));
}

TEST_F(GraphChangesTest, WhatLiesBehindARewriteIsTheSameNode) {
  const Value inner = Add("relu", {x_});
  const Graph before = Of(Add("exp", {Add("relu", {inner}, "r")}));
  arena_->SetName(inner, "r");  // as a rewrite hands it on
  const Graph after = Of(Add("exp", {inner}));
  const GraphChanges changes = ChangesBetween(before, after);
  EXPECT_EQ(changes.regions, 1);
  EXPECT_THAT(changes.before.region, ElementsAre(-1, -1, 0, -1));  // x, relu, relu, exp
  EXPECT_THAT(changes.after.region, Each(-1));
  EXPECT_THAT(changes.after.partner, ElementsAre(0, 1, 3));
}

TEST_F(GraphChangesTest, SiblingsThatBecomeOneAreOneChangeAndOthersAreOthers) {
  const Value left = Add("exp", {x_}, "left"), right = Add("exp", {Add("neg", {x_})}, "right");
  const Value sum = Add("add", {left, right}, "sum");
  const Graph before = Of(Add("relu", {Add("relu", {Add("tanh", {sum}, "middle")})}));
  const Value joined = Add("exp", {Add("concat", {x_, Add("neg", {x_})}, "", {{"axis", int64_t{0}}})});
  const auto split = arena_->Add("split", {joined}, {{"axis", int64_t{0}}, {"sizes", std::vector<int64_t>{4, 4}}});
  ASSERT_TRUE(split.ok()) << split.status();
  arena_->SetName({*split, 0}, "left");
  arena_->SetName({*split, 1}, "right");
  const Value middle = Add("tanh", {Add("add", {Value{*split, 0}, Value{*split, 1}}, "sum")}, "middle");
  const Graph after = Of(Add("relu", {middle}));
  const GraphChanges changes = ChangesBetween(before, after);
  EXPECT_EQ(changes.regions, 2);
  const auto region = [&](Value value) { return changes.RegionOf(*arena_, value); };
  EXPECT_EQ(region(left), region(right));
  EXPECT_EQ(region(left), region(joined));
  EXPECT_NE(region(left), region(before.outputs()[0].value));
  // A value of a graph in between is found by its name, and by the values from which it is computed.
  const Value between = Add("abs", {x_}, "left");
  EXPECT_EQ(region(between), region(left));
  EXPECT_EQ(region(Add("sqrt", {between})), region(left));
  EXPECT_EQ(region(x_), -1);
}

TEST_F(GraphChangesTest, ChangesThatAreAlikeHaveOneKind) {
  const auto make = [&](bool merged) {
    Value at = x_;
    for (int layer = 0; layer < 3; ++layer) {
      const std::string op = layer == 2 ? "tanh" : "relu";
      at = Add("exp",
               {merged ? Add(op, {at}, absl::StrCat("r", layer)) : Add(op, {Add(op, {at})}, absl::StrCat("r", layer))},
               absl::StrCat("e", layer));
    }
    return Of(at);
  };
  const Graph before = make(false), after = make(true);
  const GraphChanges changes = ChangesBetween(before, after);
  ASSERT_EQ(changes.regions, 3);
  EXPECT_THAT(changes.kind, ElementsAre(0, 0, 2));
}

TEST_F(GraphChangesTest, OtherAttributesAndWeightsAreChanges) {
  const Graph before = Of(Add("softmax", {x_}, "", {{"axis", int64_t{0}}}));
  const Graph after = Of(Add("softmax", {x_}, "", {{"axis", int64_t{1}}}));
  const GraphChanges changes = ChangesBetween(before, after);
  EXPECT_EQ(changes.regions, 1);  // one took the place of the other
  EXPECT_THAT(changes.before.region, ElementsAre(-1, 0));
  EXPECT_THAT(changes.after.region, ElementsAre(-1, 0));
}

}  // namespace
}  // namespace rewright
