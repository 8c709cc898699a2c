#include "core/ir/index_value.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace rewright {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

Index Var(int id) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kVar;
  node->integer = id;
  node->name = std::string(1, static_cast<char>('x' + id));
  return Index(std::move(node));
}

std::optional<int64_t> Value(const Index& index, const std::vector<int64_t>& variables) {
  return EvalIndex(index.node(), variables);
}
std::optional<bool> Value(const Cond& condition, const std::vector<int64_t>& variables) {
  return EvalCond(condition.node(), variables);
}

const Index x = Var(0), y = Var(1);

TEST(IndexValueTest, RoundsDown) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b = 1; b <= 4; ++b) {
      const int64_t quotient = *Value(FloorDiv(x, y), {a, b}), rest = *Value(Mod(x, y), {a, b});
      EXPECT_EQ(quotient * b + rest, a);
      EXPECT_TRUE(0 <= rest && rest < b) << a << " mod " << b;
    }
  }
  EXPECT_EQ(Value(FloorDiv(x, 4), {kMin}), kMin / 4);
}

TEST(IndexValueTest, Arithmetic) {
  EXPECT_EQ(Value(x * y - x + 7, {3, 5}), 19);
  EXPECT_EQ(Value(Min(x, y) * 10 + Max(x, y), {3, 5}), 35);
  EXPECT_EQ(Value(x >= -1 && !(x == 0), {-1}), true);
  EXPECT_EQ(Value(x <= y || x < 0, {3, 2}), false);
}

TEST(IndexValueTest, WhatDoesNotFitHasNoValue) {
  EXPECT_EQ(Value(x + y, {kMax, 1}), std::nullopt);
  EXPECT_EQ(Value(x - y, {kMin, 1}), std::nullopt);
  EXPECT_EQ(Value(x * y, {int64_t{1} << 32, int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(Value(x * y, {int64_t{1} << 32, -(int64_t{1} << 31)}), kMin);
  EXPECT_EQ(Value(Min(x * y, 1), {kMax, 2}), std::nullopt);
  EXPECT_EQ(Value(x * y < 0, {kMax, 2}), std::nullopt);
  EXPECT_EQ(Value(!(x * y < 0), {kMax, 2}), std::nullopt);
}

TEST(IndexValueTest, DivisorsArePositive) {
  for (int64_t divisor : {int64_t{0}, int64_t{-3}, kMin}) {
    EXPECT_EQ(Value(FloorDiv(x, y), {7, divisor}), std::nullopt);
    EXPECT_EQ(Value(Mod(x, y), {7, divisor}), std::nullopt);
  }
}

TEST(IndexValueTest, TheSecondSideMayHaveNoValue) {
  const Cond no_value = FloorDiv(x, y) == 1;
  EXPECT_EQ(Value(y > 0 && no_value, {7, 0}), false);
  EXPECT_EQ(Value(y == 0 || no_value, {7, 0}), true);
  EXPECT_EQ(Value(y == 0 && no_value, {7, 0}), std::nullopt);
  EXPECT_EQ(Value(no_value || y == 0, {7, 0}), std::nullopt);
}

TEST(IndexValueTest, ElementsHaveNoValue) {
  auto read = std::make_shared<ExprNode>();
  read->kind = ExprKind::kRead;
  read->dtype = DType::kInt64;
  EXPECT_EQ(Value(ToIndex(Scalar(read)) + 1, {}), std::nullopt);
  EXPECT_EQ(Value(Holds(Cast(Scalar(read), DType::kBool)), {}), std::nullopt);
}

}  // namespace
}  // namespace rewright
