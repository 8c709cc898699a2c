#include "core/ir/expr.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/check.h"
#include "core/ir/index_value.h"
#include "core/ir/op.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

TEST(ExprTest, LiteralsFold) {
  EXPECT_TRUE((Index(2) * 3 + 4).Is(10));
  EXPECT_TRUE(FloorDiv(-7, 2).Is(-4));
  EXPECT_TRUE(Mod(-7, 2).Is(1));
  EXPECT_TRUE(CeilDiv(7, 2).Is(4));
  const Index x = Variable(0, "x");
  EXPECT_EQ((x + 0).node(), x.node());
  EXPECT_EQ((x * 1).node(), x.node());
  EXPECT_EQ((Cond(true) && (x < 3)).node()->kind(), ExprKind::kLess);
}

TEST(ExprTest, EqualStructuresAreOneNode) {
  const auto make = [](const std::string& name) {
    const Index i = Variable(0, name);
    const Scalar read = ReadOperand(1, {i, FloorDiv(i, 4)}, DType::kFloat32);
    return ReduceOver(ReduceKind::kMax, {{2, "k", (i + 7).node()}}, i < 3, Select(i < 2, Exp(read), 0.5)).node();
  };
  EXPECT_EQ(make("i"), make("i"));
  EXPECT_NE(make("i"), make("j")) << "printed names are part of the structure";
  EXPECT_NE(Constant(0.0, DType::kFloat32).node(), Constant(-0.0, DType::kFloat32).node());
  EXPECT_NE(Constant(1, DType::kFloat32).node(), Constant(1, DType::kFloat64).node());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Constant(nan, DType::kFloat32).node(), Constant(nan, DType::kFloat32).node());
  EXPECT_NE(Parameter(0, "a", DType::kFloat32).node(), Parameter(1, "a", DType::kFloat32).node());
}

TEST(ExprTest, NodesThatNobodyHasAreGone) {
  const size_t before = NumInternedExprs();
  {
    Index e = Variable(0, "only here");
    for (int i = 0; i < 100; ++i) e = e * e + i;
    EXPECT_GT(NumInternedExprs(), before + 100);
  }
  EXPECT_EQ(NumInternedExprs(), before);
}

// The last user of a node may drop it while another thread finds it.
TEST(ExprTest, IsDroppedByThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100000; ++i) {
        const Index sum = (Variable(i % 3, "x") + Index(i % 5)) * Variable(1, "y");
        ASSERT_EQ(sum.node()->kind(), ExprKind::kIndexMul);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Threads that make and drop equal expressions at the same time agree on the nodes that both have.
TEST(ExprTest, IsSharedByThreads) {
  constexpr int kThreads = 4, kRounds = 3000;
  std::vector<std::vector<ExprPtr>> kept(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &kept] {
      for (int round = 0; round < kRounds; ++round) {
        const Index x = Variable(0, "x");
        const Index e = FloorDiv(x * round + 1, x + round);
        if (round % 100 == 0) kept[t].push_back(e.node());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(kept[t], kept[0]);
}

TEST(ExprTest, KnowsWhatIsBelow) {
  const Index x = Variable(3, "x");
  const Scalar flag = ReadOperand(0, {x}, DType::kBool);
  const ExprPtr e = Select(Holds(flag), Constant(1, DType::kFloat32), 0.0).node();
  EXPECT_TRUE(e->ReadsData());
  EXPECT_TRUE(e->Contains(ExprKind::kRead));
  EXPECT_FALSE(e->Contains(ExprKind::kReduce));
  EXPECT_FALSE((x < 3).node()->ReadsData());
  EXPECT_TRUE(e->MayMention(3));
  EXPECT_FALSE(e->MayMention(4));
  EXPECT_EQ(e->greatest_variable(), 3);
  const ExprPtr sum = ReduceOver(ReduceKind::kSum, {{3, "x", Index(2).node()}}, Cond(true), Scalar(e)).node();
  EXPECT_FALSE(sum->MayMention(3));
}

TEST(ExprTest, AccessorsKnowTheirKind) {
  try {
    Variable(0, "x").node()->value();
    ADD_FAILURE() << "a variable has no value";
  } catch (const InternalFault& fault) {
    EXPECT_NE(std::string(fault.what()).find("read as one of kind 0: x"), std::string::npos) << fault.what();
  }
  EXPECT_THROW(Index(1).node()->variable(), InternalFault);
  EXPECT_THROW(Cond(true).node()->guard(), InternalFault);
}

TEST(ExprTest, PrintsWithTheFewestParentheses) {
  const Index x = Variable(0, "x"), y = Variable(1, "y");
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
  const Index x = Variable(0, "x"), y = Variable(1, "y");
  const ExprPtr e = (x * y + 1).node();
  EXPECT_EQ(PrintExpr(Substitute(e, {nullptr, Index(3).node()}, {}), {}), "x * 3 + 1");
  EXPECT_EQ(EvalIndex(Substitute(e, {Index(2).node(), Index(3).node()}, {}), {}), 7);
  EXPECT_EQ(Substitute(e, {nullptr, nullptr}, {}), e) << "nothing changed: shared";
}

}  // namespace
}  // namespace rewright
