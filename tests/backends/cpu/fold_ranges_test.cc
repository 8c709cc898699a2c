// Which blocks of a fold are known to change nothing, from the ranges of what they read.
#include "backends/cpu/folds/fold_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/fold_cases.h"

namespace rewright::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

BlockProgram ProgramOf(const std::string& name) {
  const std::vector<FoldCase> cases = FoldCases();
  const auto one = std::find_if(cases.begin(), cases.end(), [&](const FoldCase& c) { return c.name == name; });
  const Grouped group(one->graph);
  const auto fold = group.FoldAlong(one->operand, one->axis);
  EXPECT_TRUE(fold.ok()) << fold.status();
  const auto program =
      MakeBlockProgram(*group.applied.meaning, 0, BindingsOf(*group.applied.meaning, group.types, {}), *fold);
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

// A block of softmax(q k / 2 + mask) v.
struct Block {
  Range mask{0, 0}, products{-100, 100}, values{-1, 1}, largest{-5, 5};
};

bool IsUnchanged(const Block& block) {
  static const BlockProgram& program = *new BlockProgram(ProgramOf("attention"));
  using Kind = BlockProgram::Value::Kind;
  const auto of_value = [&](int v) -> Range {
    const BlockProgram::Value& value = program.values[static_cast<size_t>(v)];
    if (value.kind == Kind::kProduct) return block.products;
    if (value.kind == Kind::kNumber) return {2, 2};
    if (value.expr->operand() == 3) return block.mask;
    return value.expr->operand() == 2 ? block.values : Range();
  };
  const auto of_carried = [&](int carried) { return carried == 0 ? block.largest : Range(); };
  return LeavesAllUnchanged(program, {of_value, of_carried});
}

TEST(FoldRanges, TellBlocksThatAMaskExcludes) {
  EXPECT_TRUE(IsUnchanged({.mask = {-1e4f, -1e4f}}));
  EXPECT_TRUE(IsUnchanged({.mask = {-3.4e38f, -1e4f}}));
  EXPECT_TRUE(IsUnchanged({.mask = {-kInfinity, -kInfinity}}));
  EXPECT_FALSE(IsUnchanged({.mask = {0, 0}}));
  EXPECT_FALSE(IsUnchanged({.mask = {-1e4f, 0}}));
  EXPECT_FALSE(IsUnchanged({.mask = {}}));
}

// The greatest score of a block is 50 above its mask, the least of the largest scores so far is -5: exp of their
// difference is to be less than half of the smallest number.
TEST(FoldRanges, AskForPowersThatAreZero) {
  EXPECT_FALSE(IsUnchanged({.mask = {-155, -155}}));
  EXPECT_TRUE(IsUnchanged({.mask = {-161, -161}}));
  EXPECT_FALSE(IsUnchanged({.mask = {-161, -161}, .largest = {-7, 5}}));
}

TEST(FoldRanges, LeaveOutNothingThatIsNotFinite) {
  EXPECT_FALSE(IsUnchanged({.mask = {-1e4f, -1e4f}, .products = {}}));
  EXPECT_FALSE(IsUnchanged({.mask = {-1e4f, -1e4f}, .products = {-kInfinity, kInfinity}}));
  EXPECT_FALSE(IsUnchanged({.mask = {-1e4f, -1e4f}, .values = {0, kInfinity}}));
  EXPECT_FALSE(IsUnchanged({.mask = {-1e4f, -1e4f}, .values = {}}));
  EXPECT_FALSE(IsUnchanged({.mask = {-1e4f, -1e4f}, .largest = {}}));
  EXPECT_FALSE(IsUnchanged({.mask = {-kInfinity, -kInfinity}, .largest = {-kInfinity, 5}}));
}

TEST(FoldRanges, AreOfUseWhereAMaskIsRead) {
  EXPECT_TRUE(MayLeaveUnchanged(ProgramOf("attention")));
  EXPECT_TRUE(MayLeaveUnchanged(ProgramOf("product_bias_gelu_product")));
  EXPECT_FALSE(MayLeaveUnchanged(ProgramOf("attention_of_grouped_heads")));
  EXPECT_FALSE(MayLeaveUnchanged(ProgramOf("softmax")));
}

}  // namespace
}  // namespace rewright::cpu
