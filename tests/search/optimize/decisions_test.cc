#include "search/optimize/decisions.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

TEST(Decisions, BitsAreKeptBeforeRoundingsAlone) {
  auto arena = std::make_shared<Arena>();
  const TensorType type{DType::kFloat32, {4, 4}};
  const Value x = *arena->AddInput("x", type), y = *arena->AddInput("y", type);
  const Value before = *arena->Apply("matmul", {x, y});
  const Value rounded = *arena->Apply("round", {before});
  const Value after = *arena->Apply("mul", {rounded, y});
  const Value beside = *arena->Apply("add", {x, y});
  const Value compared = *arena->Apply("less", {beside, y});
  const Graph graph(arena, {x, y}, {{after, "a"}, {compared, "b"}});
  EXPECT_EQ(KeepRoundings(graph), 1);
  EXPECT_TRUE(graph.node(before.node).keeps_bits);
  for (Value value : {rounded, after, beside, compared}) EXPECT_FALSE(graph.node(value.node).keeps_bits);
  // Copies keep them, too.
  const Graph copy = CopyGraph(graph);
  int kept = 0;
  for (NodeId id : copy.nodes()) kept += copy.node(id).keeps_bits ? 1 : 0;
  EXPECT_EQ(kept, 1);
}

// Work that grows with the cube of the number of operands would not end within the time limit of tests.
TEST(Decisions, OperandsOfAWideNodeAreLookedAtOnce) {
  constexpr int kOperands = 10000;
  auto arena = std::make_shared<Arena>();
  std::vector<Value> parts;
  for (int i = 0; i < kOperands; ++i) parts.push_back(*arena->AddInput(absl::StrCat("x", i), {DType::kFloat32, {1}}));
  const Value joined = *arena->Apply("concat", parts, {{"axis", 0}});
  const Graph graph(arena, parts, {{*arena->Apply("round", {joined}), "y"}});
  EXPECT_EQ(KeepRoundings(graph), 1);
}

TEST(Decisions, ComparisonsOfRewrittenValuesAreCounted) {
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {4}}), y = *arena->AddInput("y", {DType::kFloat32, {4}});
  const Graph original(arena, {x, y}, {{*arena->Apply("less", {*arena->Apply("add", {x, y}), y}), "b"}});
  const Graph rewritten(arena, {x, y}, {{*arena->Apply("less", {*arena->Apply("add", {y, x}), y}), "b"}});
  EXPECT_EQ(ComparisonsAfter(original, rewritten), 1);
  EXPECT_EQ(ComparisonsAfter(original, original), 0);
}

}  // namespace
}  // namespace rewright
