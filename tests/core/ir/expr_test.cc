#include "core/ir/expr.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/ir/index_value.h"
#include "core/ir/op.h"

namespace rewright {
namespace {

Index Var(int id, const std::string& name) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kVar;
  node->integer = id;
  node->name = name;
  return Index(std::move(node));
}

TEST(ExprTest, LiteralsFold) {
  EXPECT_TRUE((Index(2) * 3 + 4).Is(10));
  EXPECT_TRUE(FloorDiv(-7, 2).Is(-4));
  EXPECT_TRUE(Mod(-7, 2).Is(1));
  EXPECT_TRUE(CeilDiv(7, 2).Is(4));
  const Index x = Var(0, "x");
  EXPECT_EQ((x + 0).node(), x.node());
  EXPECT_EQ((x * 1).node(), x.node());
  EXPECT_EQ((Cond(true) && (x < 3)).node()->kind, ExprKind::kLess);
}

TEST(ExprTest, PrintsWithTheFewestParentheses) {
  const Index x = Var(0, "x"), y = Var(1, "y");
  EXPECT_EQ(PrintExpr(((x + y) * 2 - (x - y)).node(), {}), "(x + y) * 2 - (x - y)");
  EXPECT_EQ(PrintExpr((FloorDiv(x, y) * y + Mod(x, y)).node(), {}), "x div y * y + x mod y");
  EXPECT_EQ(PrintExpr((!(x < y) || InRange(x, 0, y)).node(), {}), "not x < y or 0 <= x and x < y");
}

TEST(ExprTest, FoldsWhatFits) {
  const Index large(std::numeric_limits<int64_t>::max());
  int64_t value;
  EXPECT_TRUE((large - 1 + 1).Is(std::numeric_limits<int64_t>::max()));
  EXPECT_FALSE((large + 1).IsInt(&value));
  EXPECT_FALSE((Index(-2) - large).IsInt(&value));
  EXPECT_FALSE((large * 2).IsInt(&value));
}

TEST(ExprTest, SubstitutesAndFolds) {
  const Index x = Var(0, "x"), y = Var(1, "y");
  const ExprPtr e = (x * y + 1).node();
  EXPECT_EQ(PrintExpr(Substitute(e, {nullptr, Index(3).node()}, {}), {}), "x * 3 + 1");
  EXPECT_EQ(EvalIndex(Substitute(e, {Index(2).node(), Index(3).node()}, {}), {}), 7);
  EXPECT_EQ(Substitute(e, {nullptr, nullptr}, {}), e) << "nothing changed: shared";
}

}  // namespace
}  // namespace rewright
