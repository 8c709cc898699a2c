// The index arithmetic of a proof against plain evaluation, for all small terms at every point of a box.
#include "tests/support/small_terms.h"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/smt/solver.h"

namespace rewright::verifier {
namespace {

using Extent = std::function<int64_t(int64_t m, int64_t n)>;

class SmallIndices : public ::testing::Test {
 protected:
  SmallIndices() {
    for (const auto& [m, n] : {std::pair(2, 3), std::pair(3, 2), std::pair(1, 3), std::pair(3, 1)}) {
      ctx_.samples.push_back({{m_, m}, {n_, n}});
    }
    ctx_.factor_order = {m_, n_};
  }

  // x and y are below their extents, as numbers and as polynomials.
  void ExpectRight(const Extent& extent_x, const Poly& size_x, const Extent& extent_y, const Poly& size_y) {
    const std::vector<SmallPoint> points = SmallBox(3, extent_x, extent_y);
    const Var x = ctx_.NewRanged("x", Poly(), size_x), y = ctx_.NewRanged("y", Poly(), size_y);
    std::vector<Assignment> values;
    for (const SmallPoint& point : points) {
      values.push_back({{m_, point.m}, {n_, point.n}, {x, point.x}, {y, point.y}});
    }
    const auto apply = [this](ExprKind kind, const Poly& a, const Poly& b) { return Apply(kind, a, b); };
    const SmallTerms<Poly, decltype(apply)> terms(points, Poly::Of(m_), Poly::Of(n_), Poly::Of(x), Poly::Of(y), apply);
    int64_t nonnegative = 0, decided = 0;
    const int64_t visited = terms.ForEach(AllCases() ? 1 : 10, [&](const SmallTerm<Poly>& term) {
      const int64_t least = term.Least(), greatest = term.Greatest();
      const Poly above = term.number - Poly(least + 1), below = Poly(greatest - 1) - term.number;
      EXPECT_FALSE(ctx_.QuickNonneg(above)) << term.text << " is " << least << " somewhere";
      EXPECT_FALSE(ctx_.QuickNonneg(below)) << term.text << " is " << greatest << " somewhere";
      const bool proved = ctx_.ProveNonneg({term.number}, {}, {}, Context::Effort::kLinear);
      EXPECT_TRUE(!proved || least >= 0) << term.text << " is " << least << " somewhere";
      nonnegative += least >= 0;
      decided += proved;
      for (size_t k = 0; k < points.size(); ++k) {
        int64_t found = 0;
        ASSERT_TRUE(ctx_.Evaluate(term.number, &values[k], &found)) << term.text;
        ASSERT_EQ(found, term.values[k]) << term.text << " is not " << ctx_.Print(term.number);
      }
    });
    std::cout << visited << " terms at " << points.size() << " points; of " << nonnegative
              << " that are not negative here, " << decided << " are proved so for all sizes\n";
  }

  Poly Apply(ExprKind kind, const Poly& a, const Poly& b) {
    switch (kind) {
      case ExprKind::kIndexAdd: return a + b;
      case ExprKind::kIndexMul: return a * b;
      case ExprKind::kFloorDiv: return ctx_.FloorDiv(a, b);
      case ExprKind::kMod: return ctx_.Mod(a, b);
      default: return ctx_.MinOf(a, b);
    }
  }

  QueryCache query_cache_;
  ProofSession session_{.work_limit_s = kNoLimit, .query_cache = &query_cache_};
  Context ctx_{&session_, {}, 1};
  const Var m_ = ctx_.NewParam("m", 1), n_ = ctx_.NewParam("n", 1);
};

TEST_F(SmallIndices, OfAVariableForEachSize) {
  ExpectRight([](int64_t m, int64_t) { return m; }, Poly::Of(m_), [](int64_t, int64_t n) { return n; }, Poly::Of(n_));
}

TEST_F(SmallIndices, OfAPositionInAProduct) {
  ExpectRight([](int64_t m, int64_t n) { return m * n; }, Poly::Of(m_) * Poly::Of(n_),
              [](int64_t, int64_t) { return 4; }, Poly(4));
}

}  // namespace
}  // namespace rewright::verifier
