// The rewriting that recomputation does, on groups that are given.
#include "search/memory/activation_lifetimes.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/ir/text.h"

namespace rewright {
namespace {

// A transpose is a view in each group that reads it, but stands in one of them: in the last one, of two.
TEST(ActivationLifetimesTest, WhatOnlyMovesIsThereForItsFirstReader) {
  const auto graph = ParseGraph(R"(input x: f32[2,3]
%1 = relu(x)
%2 = transpose(%1, perm=[1,0])
%3 = tanh(%2)
%4 = exp(%2)
%5 = add(%3, %4)
output y = %5
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<NodeId> ids;  // relu, transpose, tanh, exp, add
  for (NodeId id : graph->nodes()) {
    if (graph->IsRun(graph->node(id))) ids.push_back(id);
  }
  ASSERT_EQ(ids.size(), 5u);
  const auto group = [](std::vector<NodeId> nodes) {
    const Value last{nodes.back(), 0};
    return Group{.nodes = std::move(nodes), .outputs = {last}};
  };
  const std::vector<Group> groups = {group({ids[0]}), group({ids[2]}), group({ids[1], ids[3]}), group({ids[4]})};
  const ActivationLifetimes waiting(*graph, groups);
  const auto rewritten = waiting.Rewrite(Residencies(graph->nodes().size(), Residency::kResident));
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  EXPECT_EQ(PrintGraph(rewritten->graph), PrintGraph(*graph));
}

// A deep net: all of its activations are computed again, each from the one before.
TEST(ActivationLifetimesTest, ActivationsOfADeepNetAreComputedAgain) {
  constexpr size_t kDepth = 100'000;
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {2}});
  std::vector<Value> values = {x};
  for (size_t i = 0; i < kDepth; ++i) values.push_back(*arena->Apply("tanh", {values.back()}));
  for (size_t i = kDepth; i-- > 1;) values.push_back(*arena->Apply("mul", {values.back(), values[i]}));
  const Graph graph(arena, {x}, {{values.back(), "y"}});
  std::vector<Group> groups;
  for (size_t i = 1; i < values.size(); ++i) groups.push_back({.nodes = {values[i].node}, .outputs = {values[i]}});
  const ActivationLifetimes waiting(graph, groups);
  const auto rewritten = waiting.Rewrite(Residencies(graph.nodes().size(), Residency::kRecomputed));
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  EXPECT_GT(rewritten->graph.num_applications(), static_cast<int>(5 * kDepth / 2));
}

}  // namespace
}  // namespace rewright
