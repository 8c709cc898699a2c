#include "core/ir/index_range.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/ir/text.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

const Meaning& MeaningOfLast(const Graph& graph) { return *graph.node(graph.nodes().back()).meaning; }

TEST(IndexRange, OperatorsTellWhatTheyIndex) {
  const Graph gather = GraphOf("input x: f32[2,7,3]\ninput i: i64[4,4]\n%1 = gather(x, i, axis=1)\noutput y = %1\n");
  const std::vector<IndexedAxis> axes = IndexedAxes(MeaningOfLast(gather));
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].indices, 1);
  EXPECT_EQ(axes[0].indexed, 0);
  EXPECT_EQ(axes[0].axis, 1);
  EXPECT_TRUE(axes[0].wraps);

  // Starts are moved inside by definition.
  const Graph slice = GraphOf("input x: f32[9]\ninput i: i64[]\n%1 = dynamic_slice(x, i, sizes=[4])\noutput y = %1\n");
  const std::vector<IndexedAxis> starts = IndexedAxes(MeaningOfLast(slice));
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].indices, 1);
  EXPECT_FALSE(starts[0].wraps);
  EXPECT_TRUE(IndexInputs(slice).empty());

  const Graph scatter = GraphOf(
      "input x: f32[2,7]\ninput i: i64[4]\ninput u: f32[2,4]\n%1 = scatter_add(x, i, u, axis=1)\noutput y = %1\n");
  const std::vector<IndexedAxis> sums = IndexedAxes(MeaningOfLast(scatter));
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].indices, 1);
  EXPECT_EQ(sums[0].indexed, 0);
  EXPECT_EQ(sums[0].axis, 1);
  EXPECT_TRUE(sums[0].wraps);
  EXPECT_EQ(IndexInputs(scatter).size(), 1u);

  // The axis of a tensor that is no operand.
  const Graph gradient =
      GraphOf("input i: i64[4]\ninput u: f32[2,4]\n%1 = gather_grad_x(i, u, axis=1, x_shape=[2,7])\noutput y = %1\n");
  const std::vector<IndexInput> inputs = IndexInputs(gradient);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].range.size(), 7);
  EXPECT_EQ(inputs[0].range.Error(3, 7).message(),
            "gather_grad_x (node 2): index 7 at element 3 of i i64[4], expected -7 <= index < 7 along x_shape1 = 7");

  EXPECT_TRUE(IndexedAxes(MeaningOfLast(GraphOf("input x: i64[9]\n%1 = add(x, x)\noutput y = %1\n"))).empty());
}

TEST(IndexRange, BothEndsAreChecked) {
  const Graph graph = GraphOf(R"(
    input x: f32[2,7]
    input unused: i64[2]
    input ids: i32[3]
    %1 = gather(x, ids, axis=1)
    output y = %1
  )");
  const std::vector<IndexInput> inputs = IndexInputs(graph);
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].input, 2u);
  const IndexRange& range = inputs[0].range;
  EXPECT_EQ(range.size(), 7);
  EXPECT_TRUE(range.Contains(-7) && range.Contains(6));
  EXPECT_FALSE(range.Contains(-8) || range.Contains(7) || range.Contains(std::numeric_limits<int64_t>::max()) ||
               range.Contains(std::numeric_limits<int64_t>::min()));
  EXPECT_TRUE(range.Check(Tensor::FromVector<int>(DType::kInt32, {3}, {-7, 0, 6})).ok());
  const absl::Status status = range.Check(Tensor::FromVector<int>(DType::kInt32, {3}, {0, -8, 7}));
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_NE(
      status.message().find(": index -8 at element 1 of ids i32[3], expected -7 <= index < 7 along axis 1 of f32[2,7]"),
      std::string::npos)
      << status;
}

}  // namespace
}  // namespace rewright
