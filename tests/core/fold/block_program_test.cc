// Block programs of the folds that are found in groups of plain operators, and what they compute.
#include "core/fold/block_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/fold/run_block_program.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "tests/support/fold_cases.h"

namespace rewright {
namespace {

struct Programmed {
  Grouped group;
  Bindings bindings;
  absl::StatusOr<BlockProgram> program = absl::UnknownError("none");

  explicit Programmed(const FoldCase& one)
      : group(one.graph), bindings(BindingsOf(*group.applied.meaning, group.types, {})) {
    const absl::StatusOr<Fold> fold = group.FoldAlong(one.operand, one.axis);
    EXPECT_TRUE(fold.ok()) << fold.status();
    if (fold.ok()) program = MakeBlockProgram(*group.applied.meaning, 0, bindings, *fold);
  }
};

class BlockProgramTest : public ::testing::TestWithParam<FoldCase> {};

TEST_P(BlockProgramTest, Prints) {
  const Programmed one(GetParam());
  const std::string text = one.program.ok() ? one.program->ToString(one.group.op->inputs)
                                            : absl::StrCat(one.program.status().message(), "\n");
  EXPECT_EQ(text, GetParam().blocks);
}

// Blocks of one position, of several with a tail, of all.
TEST_P(BlockProgramTest, GivesTheElements) {
  const Programmed one(GetParam());
  if (!one.program.ok()) GTEST_SKIP() << one.program.status();
  Rng rng(7);
  std::vector<Tensor> inputs;
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (const Value input : one.group.graph.inputs()) {
    inputs.push_back(RandomTensor(one.group.graph.type(input), rng, -2, 2));
    by_name[one.group.graph.node(input.node).name] = inputs.back();
  }
  const absl::StatusOr<std::vector<Tensor>> expected =
      InterpretGraph(one.group.graph, by_name, {.precision = Precision::kFloat64});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const auto& [rows, length] : {std::pair<int64_t, int64_t>{1, 1}, {2, 3}, {3, 1000}, {1000, 4}}) {
    const absl::StatusOr<Tensor> found =
        RunBlockProgram(*one.group.applied.meaning, 0, one.bindings, *one.program, inputs, rows, length);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->num_elements(), (*expected)[0].num_elements());
    for (int64_t i = 0; i < found->num_elements(); ++i) {
      EXPECT_NEAR(found->At(i), (*expected)[0].At(i), 1e-5 * std::max(1.0, std::abs((*expected)[0].At(i)))) << i;
    }
  }
}

// Without what brings a carried number to the new values the elements are wrong.
TEST(BlockProgram, NeedsItsRepairs) {
  const std::vector<FoldCase> cases = FoldCases();
  Programmed one(cases[0]);
  ASSERT_TRUE(one.program.ok()) << one.program.status();
  Rng rng(7);
  std::vector<Tensor> inputs;
  for (const TensorType& type : one.group.types) inputs.push_back(RandomTensor(type, rng, -2, 2));
  const auto run = [&] {
    return *RunBlockProgram(*one.group.applied.meaning, 0, one.bindings, *one.program, inputs, 2, 3);
  };
  const Tensor right = run();
  one.program->steps.back().repair = -1;
  const Tensor wrong = run();
  double difference = 0;
  for (int64_t i = 0; i < right.num_elements(); ++i)
    difference = std::max(difference, std::abs(right.At(i) - wrong.At(i)));
  EXPECT_GT(difference, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Groups, BlockProgramTest, ::testing::ValuesIn(FoldCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rewright
