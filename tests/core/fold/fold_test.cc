// Folds that are found in groups of plain operators, and what they compute.
#include "core/fold/fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "core/fold/composite_op.h"
#include "core/fold/run_fold.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "tests/support/fold_cases.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

class FoldTest : public ::testing::TestWithParam<FoldCase> {};

TEST_P(FoldTest, IsFound) {
  const Grouped group(GetParam().graph);
  const absl::StatusOr<Fold> fold = group.FoldAlong(GetParam().operand, GetParam().axis);
  ASSERT_TRUE(fold.ok()) << fold.status();
  EXPECT_EQ(fold->ToString(group.op->inputs), GetParam().fold);
}

// Blocks of one position, of several with a tail, of all.
TEST_P(FoldTest, GivesTheElements) {
  const Grouped group(GetParam().graph);
  const absl::StatusOr<Fold> fold = group.FoldAlong(GetParam().operand, GetParam().axis);
  ASSERT_TRUE(fold.ok()) << fold.status();
  Rng rng(7);
  std::vector<Tensor> inputs;
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (const Value input : group.graph.inputs()) {
    inputs.push_back(RandomTensor(group.graph.type(input), rng, -2, 2));
    by_name[group.graph.node(input.node).name] = inputs.back();
  }
  const absl::StatusOr<std::vector<Tensor>> expected =
      InterpretGraph(group.graph, by_name, {.precision = Precision::kFloat64});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int64_t block : {1, 3, 1000}) {
    const absl::StatusOr<Tensor> found =
        RunFold(*group.applied.meaning, 0, BindingsOf(*group.applied.meaning, group.types, {}), *fold, inputs, block);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->num_elements(), (*expected)[0].num_elements());
    for (int64_t i = 0; i < found->num_elements(); ++i) {
      EXPECT_NEAR(found->At(i), (*expected)[0].At(i), 1e-5 * std::max(1.0, std::abs((*expected)[0].At(i)))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, FoldTest, ::testing::ValuesIn(FoldCases()),
                         [](const auto& info) { return info.param.name; });

TEST(Fold, IsNoneWhereAnotherPositionIsRead) {
  const Grouped group("input x: f32[4,16]\n%0 = cumsum(x, axis=1)\n%1 = reduce_sum(%0, axes=[1])\noutput y = %1\n");
  EXPECT_THAT(group.FoldAlong(0, 1).status().ToString(), HasSubstr("along the axis"));
}

TEST(Fold, IsNoneWhereNothingIsReduced) {
  const Grouped group("input x: f32[4,16]\n%0 = exp(x)\noutput y = %0\n");
  EXPECT_THAT(group.FoldAlong(0, 1).status().ToString(), HasSubstr("no reduction runs along the axis"));
}

TEST(CompositeOp, NeedsItsLeaves) {
  const Graph graph = GraphOf("input x: f32[4]\ninput z: f32[4]\n%0 = add(x, z)\noutput y = %0\n");
  EXPECT_THAT(MakeCompositeOp("group", graph, {graph.inputs()[0]}, {graph.outputs()[0].value}).status().ToString(),
              HasSubstr("expected it among the operands"));
}

}  // namespace
}  // namespace rewright
