#include "core/ir/index_value.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace rewright {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

Index Var(int id) { return Variable(id, std::string(1, static_cast<char>('x' + id))); }

std::optional<int64_t> ValueAt(const Index& index, const std::vector<int64_t>& variables) {
  return EvalIndex(index.node(), variables);
}
std::optional<bool> ValueAt(const Cond& condition, const std::vector<int64_t>& variables) {
  return EvalCond(condition.node(), variables);
}

const Index x = Var(0), y = Var(1);

TEST(IndexValueTest, RoundsDown) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b = 1; b <= 4; ++b) {
      const int64_t quotient = *ValueAt(FloorDiv(x, y), {a, b}), rest = *ValueAt(Mod(x, y), {a, b});
      EXPECT_EQ(quotient * b + rest, a);
      EXPECT_TRUE(0 <= rest && rest < b) << a << " mod " << b;
    }
  }
  EXPECT_EQ(ValueAt(FloorDiv(x, 4), {kMinInt}), kMinInt / 4);
}

TEST(IndexValueTest, Arithmetic) {
  EXPECT_EQ(ValueAt(x * y - x + 7, {3, 5}), 19);
  EXPECT_EQ(ValueAt(Min(x, y) * 10 + Max(x, y), {3, 5}), 35);
  EXPECT_EQ(ValueAt(x >= -1 && !(x == 0), {-1}), true);
  EXPECT_EQ(ValueAt(x <= y || x < 0, {3, 2}), false);
}

TEST(IndexValueTest, WhatDoesNotFitHasNoValue) {
  EXPECT_EQ(ValueAt(x + y, {kMaxInt, 1}), std::nullopt);
  EXPECT_EQ(ValueAt(x - y, {kMinInt, 1}), std::nullopt);
  EXPECT_EQ(ValueAt(x * y, {int64_t{1} << 32, int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(ValueAt(x * y, {int64_t{1} << 32, -(int64_t{1} << 31)}), kMinInt);
  EXPECT_EQ(ValueAt(Min(x * y, 1), {kMaxInt, 2}), std::nullopt);
  EXPECT_EQ(ValueAt(x * y < 0, {kMaxInt, 2}), std::nullopt);
  EXPECT_EQ(ValueAt(!(x * y < 0), {kMaxInt, 2}), std::nullopt);
}

TEST(IndexValueTest, DivisorsArePositive) {
  for (int64_t divisor : {int64_t{0}, int64_t{-3}, kMinInt}) {
    EXPECT_EQ(ValueAt(FloorDiv(x, y), {7, divisor}), std::nullopt);
    EXPECT_EQ(ValueAt(Mod(x, y), {7, divisor}), std::nullopt);
  }
}

TEST(IndexValueTest, TheSecondSideMayHaveNoValue) {
  const Cond no_value = FloorDiv(x, y) == 1;
  EXPECT_EQ(ValueAt(y > 0 && no_value, {7, 0}), false);
  EXPECT_EQ(ValueAt(y == 0 || no_value, {7, 0}), true);
  EXPECT_EQ(ValueAt(y == 0 && no_value, {7, 0}), std::nullopt);
  EXPECT_EQ(ValueAt(no_value || y == 0, {7, 0}), std::nullopt);
}

TEST(IndexValueTest, ElementsHaveNoValue) {
  const Scalar read = ReadOperand(0, {}, DType::kInt64);
  EXPECT_EQ(ValueAt(ToIndex(read) + 1, {}), std::nullopt);
  EXPECT_EQ(ValueAt(Holds(Cast(read, DType::kBool)), {}), std::nullopt);
}

TEST(IndexValueTest, OneOperatorHasAValueOrNone) {
  int64_t value = 0;
  EXPECT_TRUE(EvalIndex(ExprKind::kMod, -1, 3, &value));
  EXPECT_EQ(value, 2);
  EXPECT_TRUE(EvalIndex(ExprKind::kFloorDiv, -1, 3, &value));
  EXPECT_EQ(value, -1);
  EXPECT_TRUE(EvalIndex(ExprKind::kIndexMax, -1, 3, &value));
  EXPECT_EQ(value, 3);
  EXPECT_FALSE(EvalIndex(ExprKind::kIndexMul, INT64_MAX, 2, &value));
  EXPECT_FALSE(EvalIndex(ExprKind::kIndexAdd, INT64_MAX, 1, &value));
  EXPECT_FALSE(EvalIndex(ExprKind::kIndexSub, INT64_MIN, 1, &value));
  EXPECT_FALSE(EvalIndex(ExprKind::kMod, 1, 0, &value));
}

}  // namespace
}  // namespace rewright
