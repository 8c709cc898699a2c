#include "core/numerics/narrow_nodes.h"

#include <gtest/gtest.h>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

// Returns the applications of these operators.
absl::flat_hash_set<NodeId> ApplicationsOf(const Graph& graph, const std::set<std::string>& ops) {
  absl::flat_hash_set<NodeId> found;
  for (const NodeId id : graph.nodes()) {
    if (graph.node(id).op != nullptr && ops.contains(graph.node(id).op->name)) found.insert(id);
  }
  return found;
}

std::string Narrowed(const std::string& text, const std::set<std::string>& ops) {
  const Graph graph = GraphOf(text);
  const auto narrow = WithNarrowNodes(graph, ApplicationsOf(graph, ops), DType::kBFloat16);
  EXPECT_TRUE(narrow.ok()) << narrow.status();
  return narrow.ok() ? PrintGraph(*narrow) : "";
}

constexpr char kTwoProducts[] = R"(
input x: f32[3,5]
input w: f32[5,7]
input v: f32[7,2]
%0 = matmul(x, w)
%1 = relu(%0)
%2 = matmul(%1, v)
%3 = add(%2, %2)
output y = %3
output h = %1
)";

TEST(NarrowNodes, OperandsAloneMayBeRounded) {
  const Graph graph = GraphOf(kTwoProducts);
  const auto rounded = WithRoundedOperands(graph, ApplicationsOf(graph, {"matmul"}), DType::kBFloat16);
  ASSERT_TRUE(rounded.ok()) << rounded.status();
  EXPECT_EQ(PrintGraph(*rounded), PrintGraph(GraphOf(R"(
input x: f32[3,5]
input w: f32[5,7]
input v: f32[7,2]
%0 = cast(x, to=bf16)
%1 = cast(%0, to=f32)
%2 = cast(w, to=bf16)
%3 = cast(%2, to=f32)
%4 = matmul(%1, %3)
%5 = relu(%4)
%6 = cast(%5, to=bf16)
%7 = cast(%6, to=f32)
%8 = cast(v, to=bf16)
%9 = cast(%8, to=f32)
%10 = matmul(%7, %9)
%11 = add(%10, %10)
output y = %11
output h = %5
)")));
}

// Neighbours that are narrow hand on their results as they are; each value is converted once each way.
TEST(NarrowNodes, ConversionsStandAtBorders) {
  EXPECT_EQ(Narrowed(kTwoProducts, {"matmul", "relu"}), PrintGraph(GraphOf(R"(
input x: f32[3,5]
input w: f32[5,7]
input v: f32[7,2]
%0 = cast(x, to=bf16)
%1 = cast(w, to=bf16)
%2 = matmul(%0, %1)
%3 = relu(%2)
%4 = cast(v, to=bf16)
%5 = matmul(%3, %4)
%6 = cast(%5, to=f32)
%7 = add(%6, %6)
%8 = cast(%3, to=f32)
output y = %7
output h = %8
)")));
}

TEST(NarrowNodes, NoNodesChangeNothing) { EXPECT_EQ(Narrowed(kTwoProducts, {}), PrintGraph(GraphOf(kTwoProducts))); }

TEST(NarrowNodes, OtherTypesStay) {
  EXPECT_EQ(Narrowed(R"(
input x: f32[4,6]
input i: i64[2]
input d: f64[2,6]
%0 = gather(x, i, axis=0)
%1 = cast(%0, to=f64)
%2 = add(%1, d)
output y = %2
)",
                     {"gather", "add"}),
            PrintGraph(GraphOf(R"(
input x: f32[4,6]
input i: i64[2]
input d: f64[2,6]
%0 = cast(x, to=bf16)
%1 = gather(%0, i, axis=0)
%2 = cast(%1, to=f32)
%3 = cast(%2, to=f64)
%4 = add(%3, d)
output y = %4
)")));
}

}  // namespace
}  // namespace rewright
