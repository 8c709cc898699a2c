// The laws by which equations between indices are solved (core/index/solve.h, verifier/simplify.cc), each as a
// statement about integers that Z3 and cvc5 prove for all values. The division is Euclid's: a = b (a div b) + a mod b,
// 0 <= a mod b < b.
#include <gtest/gtest.h>
#include <z3++.h>

#include <functional>
#include <string>
#include <vector>

#include "verifier/query_solver.h"

namespace rewright {
namespace {

class IntegerLaws : public ::testing::Test {
 protected:
  z3::expr Int(const char* name) { return context_.int_const(name); }

  // quotient = x div y and rest = x mod y.
  static z3::expr Euclid(const z3::expr& x, const z3::expr& y, const z3::expr& quotient, const z3::expr& rest) {
    return x == y * quotient + rest && rest >= 0 && rest < y;
  }
  // Instances of what holds for factor >= 1: different integers differ by factor at least when both are multiplied.
  static z3::expr Multiples(const z3::expr& x, const z3::expr& y, const z3::expr& factor) {
    return implies(x < y, factor * (y - x) >= factor) && implies(y < x, factor * (x - y) >= factor);
  }
  // Whether the facts imply the claim for all integers. Where cvc5 is installed both have to find the same.
  bool Holds(const std::vector<z3::expr>& facts, const z3::expr& claim) {
    z3::solver solver(context_);
    for (const z3::expr& fact : facts) solver.add(fact);
    solver.add(!claim);
    const SmtQuery query{.purpose = "law", .logic = "QF_NIA", .text = "(set-logic QF_NIA)\n" + solver.to_smt2()};
    const auto answer = AskZ3(query);
    const bool holds = answer.ok() && *answer == SmtAnswer::kUnsat;
    const auto second = AskCvc5({query}, 20);
    if (absl::IsNotFound(second.status())) return holds;
    EXPECT_EQ(second.ok() && second->at(0) == SmtAnswer::kUnsat, holds) << query.text;
    return holds;
  }

  z3::context context_;
  z3::expr v = Int("v"), q = Int("q"), a = Int("a"), b = Int("b"), c = Int("c"), e = Int("e"), d = Int("d"),
           p = Int("p"), t = Int("t"), h = Int("h"), quotient = Int("quotient"), rest = Int("rest");
};

TEST_F(IntegerLaws, Solve) {
  EXPECT_TRUE(Holds({}, (v + a == b) == (v == b - a)));
  EXPECT_FALSE(Holds({}, (v + a == b) == (v == a - b)));
}

TEST_F(IntegerLaws, Scale) {
  const std::vector<z3::expr> facts = {c >= 1, Euclid(e, c, quotient, rest), Multiples(v, quotient, c)};
  EXPECT_TRUE(Holds(facts, (c * v == e) == (rest == 0 && v == quotient)));
  // Divisibility is part of it.
  EXPECT_FALSE(Holds(facts, (c * v == e) == (v == quotient)));
}

TEST_F(IntegerLaws, Digit) {
  const std::vector<z3::expr> facts = {v >= 0, v < d, Euclid(e, d, quotient, rest), Multiples(q, quotient, d)};
  EXPECT_TRUE(Holds(facts, (v + d * q == e) == (v == rest && q == quotient)));
  // A digit that may be as large as the base is none.
  const std::vector<z3::expr> wide = {v >= 0, v <= d, d >= 1, Euclid(e, d, quotient, rest), Multiples(q, quotient, d)};
  EXPECT_FALSE(Holds(wide, (v + d * q == e) == (v == rest && q == quotient)));
}

TEST_F(IntegerLaws, Exact) {
  const std::vector<z3::expr> facts = {d >= 1, Euclid(p, d, quotient, rest), Multiples(e, quotient, d)};
  EXPECT_TRUE(Holds(facts, (quotient == e && rest == 0) == (p == d * e)));
  EXPECT_FALSE(Holds(facts, (quotient == e) == (p == d * e)));
}

TEST_F(IntegerLaws, Radix) {
  const std::vector<z3::expr> facts = {d >= 1, a >= 0, a < d, Euclid(p, d, quotient, rest), Multiples(b, quotient, d)};
  EXPECT_TRUE(Holds(facts, (rest == a && quotient == b) == (p == b * d + a)));
  EXPECT_FALSE(Holds({d >= 1, a >= 0, a <= d, Euclid(p, d, quotient, rest), Multiples(b, quotient, d)},
                     (rest == a && quotient == b) == (p == b * d + a)));
}

TEST_F(IntegerLaws, Quotient) {
  const std::vector<z3::expr> facts = {d >= 1, Euclid(v + a, d, quotient, rest), Multiples(e, quotient, d)};
  EXPECT_TRUE(Holds(facts, implies(quotient == e, v == d * e + rest - a && rest >= 0 && rest < d)));
  EXPECT_TRUE(Holds(facts, implies(v == d * e + t - a && t >= 0 && t < d, quotient == e && t == rest)));
  EXPECT_FALSE(Holds(facts, implies(v == d * e + t - a && t >= 0 && t <= d, quotient == e)));
}

TEST_F(IntegerLaws, Split) {
  const std::vector<z3::expr> facts = {d >= 1, Euclid(v, d, quotient, rest), Multiples(h, quotient, d)};
  EXPECT_TRUE(Holds(facts, v == d * quotient + rest));
  EXPECT_TRUE(Holds(facts, implies(v == d * h + t && t >= 0 && t < d, h == quotient && t == rest)));
}

// 0 <= e - d v < d says v = e div d: how the prover sums over what a range determines.
TEST_F(IntegerLaws, RangeOfAQuotient) {
  const std::vector<z3::expr> facts = {d >= 1, Euclid(e, d, quotient, rest), Multiples(v, quotient, d)};
  EXPECT_TRUE(Holds(facts, (e - d * v >= 0 && e - d * v < d) == (v == quotient)));
  EXPECT_FALSE(Holds(facts, (e - d * v >= 0 && e - d * v <= d) == (v == quotient)));
}

// a div d = e says 0 <= a - d e < d: how the prover opens a quotient.
TEST_F(IntegerLaws, RangeOfANumber) {
  const std::vector<z3::expr> facts = {d >= 1, Euclid(a, d, quotient, rest), Multiples(e, quotient, d)};
  EXPECT_TRUE(Holds(facts, (quotient == e) == (a - d * e >= 0 && a - d * e < d)));
  EXPECT_FALSE(Holds(facts, (quotient == e) == (a - d * e >= 0 && a - d * e <= d)));
}

// 0 <= d b + a says 0 <= b + a div d, and a < d b says a div d < b: lemmas about bounds beside quotients.
TEST_F(IntegerLaws, BoundsBesideAQuotient) {
  const std::vector<z3::expr> facts = {d >= 1, Euclid(a, d, quotient, rest), Multiples(b, quotient, d),
                                       Multiples(b, -quotient, d)};
  EXPECT_TRUE(Holds(facts, (d * b + a >= 0) == (b + quotient >= 0)));
  EXPECT_TRUE(Holds(facts, (a < d * b) == (quotient < b)));
  EXPECT_FALSE(Holds(facts, (a <= d * b) == (quotient < b)));
}

// The v at which d divides v + e are the d w - e, and different w give different v.
TEST_F(IntegerLaws, Multiples) {
  const std::vector<z3::expr> facts = {d >= 1, Euclid(v + e, d, quotient, rest), Multiples(p, quotient, d),
                                       Multiples(p, t, d)};
  EXPECT_TRUE(Holds(facts, (rest == 0 && quotient == p) == (v == d * p - e)));
  EXPECT_TRUE(Holds(facts, implies(d * p - e == d * t - e, p == t)));
  EXPECT_FALSE(Holds(facts, (quotient == p) == (v == d * p - e)));
}

}  // namespace
}  // namespace rewright
