#include "verifier/smt/solver.h"

#include <gtest/gtest.h>

#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/normal_form.h"

namespace rewright::verifier {
namespace {

class SolverTest : public ::testing::Test {
 protected:
  SolverTest() : session_{.query_cache = &query_cache_}, ctx_(&session_, Strategy(), 1), solver_(&ctx_) {
    a_ = Poly::Of(ctx_.NewParam("a", std::nullopt));
    b_ = Poly::Of(ctx_.NewParam("b", std::nullopt));
  }

  bool Holds(const Guard& goal) { return solver_.Implies({}, goal, {}, "legal"); }

  static Term TermOf(int64_t coef, const Guard& guard) {
    Term t;
    t.coef = coef;
    t.guard = guard;
    return t;
  }

  QueryCache query_cache_;
  ProofSession session_;
  Context ctx_;
  Solver solver_;
  Poly a_, b_;
};

// No lemma about products says it.
TEST_F(SolverTest, ASquareIsNotNegative) {
  EXPECT_TRUE(Holds(Guard::Ge((a_ - b_) * (a_ - b_))));
  EXPECT_EQ(session_.queries, 2);
}

// A query that hangs takes a minute: after one, a proof asks no more of its kind.
TEST_F(SolverTest, AfterAQueryThatHungOnlyLinearOnesAreAsked) {
  session_.hung = true;
  EXPECT_FALSE(Holds(Guard::Ge((a_ - b_) * (a_ - b_))));
  EXPECT_EQ(session_.queries, 1);
  EXPECT_TRUE(solver_.Implies({Guard::Ge(a_ - b_)}, Guard::Ge(a_ - b_ + Poly(1)), {}, "legal"));
  EXPECT_EQ(session_.queries, 2);
}

TEST_F(SolverTest, CoefficientsUnderOneConditionCancelWithoutAQuery) {
  const Guard p = Guard::Ge(a_), q = Guard::Ge(b_);
  EXPECT_TRUE(solver_.CoefficientsCancel({}, {TermOf(1, Guard::And(p, q)), TermOf(-1, Guard::And(q, p))}));
  EXPECT_TRUE(solver_.CoefficientsCancel({}, {TermOf(2, Guard::True()), TermOf(-1, Guard::True()), TermOf(1, p),
                                              TermOf(-1, Guard::True()), TermOf(-1, p)}));
  EXPECT_EQ(session_.queries, 0);
}

TEST_F(SolverTest, CoefficientsUnderOtherConditionsAreAskedAbout) {
  const Guard p = Guard::Ge(a_);
  const NormalForm all = {TermOf(1, p), TermOf(1, Guard::Not(p)), TermOf(-1, Guard::True())};
  EXPECT_TRUE(solver_.CoefficientsCancel({}, all));
  EXPECT_EQ(session_.queries, 1);
  EXPECT_FALSE(solver_.CoefficientsCancel({}, {TermOf(1, p), TermOf(-1, Guard::Ge(b_))}));
  EXPECT_FALSE(solver_.CoefficientsCancel({}, {TermOf(1, p), TermOf(1, p)}));
  EXPECT_TRUE(solver_.CoefficientsCancel({Guard::Ge(-a_ - Poly(1))}, {TermOf(1, p), TermOf(1, p)}));
}

}  // namespace
}  // namespace rewright::verifier
