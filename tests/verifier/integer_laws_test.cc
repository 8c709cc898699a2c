// The laws of quotients and of equations between indices (core/index/laws.h), taken as they are over terms of Z3: each
// is a statement about integers that Z3 and cvc5 prove for all values. The division is Euclid's: a = b (a div b) + a
// mod b, 0 <= a mod b < b.
#include <gtest/gtest.h>
#include <z3++.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/index/laws.h"
#include "verifier/check/cvc5_query_solver.h"
#include "verifier/check/query_solver.h"

namespace rewright {
namespace {

// Quotients and remainders are numbers of which Euclid's conditions are known.
class Terms {
 public:
  using Number = z3::expr;
  explicit Terms(z3::context* context) : context_(*context) {}

  z3::expr FloorDiv(const z3::expr& x, const z3::expr& y) { return Divided(x, y).first; }
  z3::expr Mod(const z3::expr& x, const z3::expr& y) { return Divided(x, y).second; }
  const std::vector<z3::expr>& facts() const { return facts_; }

 private:
  const std::pair<z3::expr, z3::expr>& Divided(const z3::expr& x, const z3::expr& y) {
    const std::string key = x.to_string() + " by " + y.to_string(), number = std::to_string(made_.size());
    const auto [at, inserted] = made_.try_emplace(key, context_.int_const(("quotient" + number).c_str()),
                                                  context_.int_const(("rest" + number).c_str()));
    const auto& [quotient, rest] = at->second;
    if (inserted) facts_.push_back(x == y * quotient + rest && rest >= 0 && rest < y);
    return at->second;
  }

  z3::context& context_;
  std::map<std::string, std::pair<z3::expr, z3::expr>> made_;
  std::vector<z3::expr> facts_;
};

class IntegerLaws : public ::testing::Test {
 protected:
  using Laws = index::Laws<Terms>;

  z3::expr Int(const char* name) { return context_.int_const(name); }
  z3::expr Div(const z3::expr& x, const z3::expr& y) { return terms_.FloorDiv(x, y); }
  z3::expr Mod(const z3::expr& x, const z3::expr& y) { return terms_.Mod(x, y); }

  // The conclusion of a law as a formula; about the unknown v if the law gives a value.
  z3::expr Says(const Laws::Conclusion& conclusion) {
    z3::expr all = context_.bool_val(true);
    for (const z3::expr& value : conclusion.value) all = all && v == value;
    for (const z3::expr& zero : conclusion.zero) all = all && zero == 0;
    for (const z3::expr& number : conclusion.nonnegative) all = all && number >= 0;
    return all;
  }
  static z3::expr Within(const z3::expr& x, const z3::expr& low, const z3::expr& high) { return x >= low && x < high; }
  // Instances of a law for factor >= 1: different integers differ by factor at least when both are multiplied.
  static z3::expr Multiples(const z3::expr& x, const z3::expr& y, const z3::expr& factor) {
    return implies(x < y, factor * (y - x) >= factor) && implies(y < x, factor * (x - y) >= factor);
  }
  // True if the facts imply the claim for all integers. If cvc5 is installed, both have to agree.
  bool Holds(const std::vector<z3::expr>& facts, const z3::expr& claim) {
    z3::solver solver(context_);
    for (const z3::expr& fact : terms_.facts()) solver.add(fact);
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
  Terms terms_{&context_};
  const Laws laws{terms_};
  z3::expr v = Int("v"), q = Int("q"), a = Int("a"), b = Int("b"), c = Int("c"), e = Int("e"), d = Int("d"),
           p = Int("p"), r = Int("r"), t = Int("t"), h = Int("h"), w = Int("w"), zero = context_.int_val(0);
};

TEST_F(IntegerLaws, Rest) {
  const z3::expr left = Laws::Rest(p, d, a);
  const std::vector<z3::expr> facts = {d >= 1, Multiples(Div(p, d), a + Div(left, d), d)};
  EXPECT_TRUE(Holds(facts, Div(p, d) == a + Div(left, d)));
  EXPECT_TRUE(Holds(facts, Mod(p, d) == Mod(left, d)));
  EXPECT_TRUE(Holds(facts, Mod(p, d) == Laws::Rest(p, d, Div(p, d))));
  EXPECT_FALSE(Holds(facts, Div(p, d) == a + Div(Laws::Rest(p, d, a + 1), d)));
}

// A number q is n div m if 0 <= n - m*q < m: the laws of quotients are shown in this form.
TEST_F(IntegerLaws, Nested) {
  const z3::expr inner = Div(p, c) + r, whole = Div(inner, d), rest = Mod(inner, d);
  const Laws::Fraction one = Laws::Nested(p, c, r, d);
  const std::vector<z3::expr> facts = {c >= 1, d >= 1, c * inner == c * (d * whole + rest), c * rest >= 0,
                                       c * rest <= c * (d - 1)};
  EXPECT_TRUE(Holds(facts, Within(Laws::Rest(one.dividend, one.divisor, whole), zero, one.divisor)));
  EXPECT_FALSE(Holds({c == 2, d == 3}, Within(Laws::Rest(p + r, c * d, whole), zero, c * d)));
}

TEST_F(IntegerLaws, Scaled) {
  const z3::expr number = c * a + b, quotient = Div(a, d), rest = Mod(a, d);
  const std::vector<z3::expr> facts = {Within(b, zero, c), d >= 1, c * a == c * (d * quotient + rest), c * rest >= 0,
                                       c * rest <= c * (d - 1)};
  const z3::expr left = Laws::Rest(number, c * d, quotient);
  EXPECT_TRUE(Holds(facts, Within(left, zero, c * d)));
  EXPECT_TRUE(Holds(facts, left == Laws::Scaled(c, rest, b)));
  EXPECT_FALSE(Holds({c == 2, d == 3}, Within(left, zero, c * d)));  // b may be any number
}

// The number below c*d is what Nested leaves of p.
TEST_F(IntegerLaws, Digits) {
  const z3::expr high = Div(Div(p, c), d), digits = laws.Digits(p, c, d), low = Laws::Rest(p, c * d, high);
  const std::vector<z3::expr> facts = {c >= 1, d >= 1, c * Div(p, c) == c * (d * high + digits)};
  EXPECT_TRUE(Holds(facts, Within(low - c * digits, zero, c)));
  EXPECT_FALSE(Holds({c == 2, d == 3}, Within(low - c * Mod(p, d), zero, c)));
}

TEST_F(IntegerLaws, Solve) {
  EXPECT_TRUE(Holds({}, (v + a == 0) == (v == Laws::Solve(1, a))));
  EXPECT_TRUE(Holds({}, (-v + a == 0) == (v == Laws::Solve(-1, a))));
  EXPECT_FALSE(Holds({}, (v + a == 0) == (v == Laws::Solve(-1, a))));
}

TEST_F(IntegerLaws, Scale) {
  const std::vector<z3::expr> facts = {c >= 1, Multiples(v, Div(e, c), c)};
  EXPECT_TRUE(Holds(facts, (c * v == e) == Says(laws.Scale(c, e))));
  // Divisibility is part of it.
  EXPECT_FALSE(Holds(facts, (c * v == e) == (v == Div(e, c))));
}

TEST_F(IntegerLaws, Digit) {
  const z3::expr same = Multiples(q, Div(e, d), d);
  EXPECT_TRUE(Holds({Within(v, zero, d), same}, (v + d * q == e) == Says(laws.Digit(d, q, e))));
  // A digit that may be as large as the base is none.
  EXPECT_FALSE(Holds({Within(v, zero, d + 1), d >= 1, same}, (v + d * q == e) == Says(laws.Digit(d, q, e))));
}

TEST_F(IntegerLaws, Radix) {
  const std::vector<z3::expr> facts = {d >= 1, Multiples(e, Div(p, d), d)};
  EXPECT_TRUE(Holds(facts, (Mod(p, d) == r && Div(p, d) == e) == Says(Laws::Radix(p, d, r, e))));
  EXPECT_TRUE(Holds(facts, (Mod(p, d) == 0 && Div(p, d) == e) == (p == d * e)));
  EXPECT_FALSE(Holds(facts, (Div(p, d) == e) == Says(Laws::Radix(p, d, r, e))));
  EXPECT_FALSE(Holds(facts, (Mod(p, d) == r && Div(p, d) == e) == (p == d * e + r)));
}

TEST_F(IntegerLaws, Quotient) {
  const std::vector<z3::expr> facts = {d >= 1, Multiples(e, Div(v + a, d), d)};
  const z3::expr rest = Mod(v + a, d), solved = v == Laws::Quotient(a, d, e, t);
  EXPECT_TRUE(Holds(facts, implies(Div(v + a, d) == e, v == Laws::Quotient(a, d, e, rest) && Within(rest, zero, d))));
  EXPECT_TRUE(Holds(facts, implies(solved && Within(t, zero, d), Div(v + a, d) == e && t == rest)));
  EXPECT_FALSE(Holds(facts, implies(solved && Within(t, zero, d + 1), Div(v + a, d) == e)));
}

TEST_F(IntegerLaws, Split) {
  const std::vector<z3::expr> facts = {d >= 1, Multiples(h, Div(v, d), d)};
  const z3::expr solved = v == Laws::Split(d, h, t);
  EXPECT_TRUE(Holds(facts, v == Laws::Split(d, Div(v, d), Mod(v, d))));
  EXPECT_TRUE(Holds(facts, implies(solved && Within(t, zero, d), h == Div(v, d) && t == Mod(v, d))));
  EXPECT_FALSE(Holds(facts, implies(solved && Within(t, zero, d + 1), h == Div(v, d))));
}

TEST_F(IntegerLaws, Residue) {
  const z3::expr same = Multiples(Div(v + a, d), -Div(-a, d), d);
  EXPECT_TRUE(Holds({Within(v, zero, d), same}, (Mod(v + a, d) == 0) == (v == laws.Residue(a, d))));
  EXPECT_FALSE(Holds({Within(v, zero, d + 1), d >= 1, same}, (Mod(v + a, d) == 0) == (v == laws.Residue(a, d))));
}

// The prover sums so over a variable that a range determines.
TEST_F(IntegerLaws, RangeOfAQuotient) {
  const std::vector<z3::expr> facts = {d >= 1, Multiples(v, Div(e, d), d)};
  EXPECT_TRUE(Holds(facts, Within(e - d * v, zero, d) == (v == laws.Range(d, e))));
  EXPECT_FALSE(Holds(facts, Within(e - d * v, zero, d + 1) == (v == laws.Range(d, e))));
}

// How the prover opens a quotient.
TEST_F(IntegerLaws, RangeOfANumber) {
  const std::vector<z3::expr> facts = {d >= 1, Multiples(e, Div(a, d), d)};
  EXPECT_TRUE(Holds(facts, (Div(a, d) == e) == Says(Laws::Opened(a, d, e))));
  EXPECT_FALSE(Holds(facts, (Div(a, d) == e) == Within(a - d * e, zero, d + 1)));
}

// Different w give different v.
TEST_F(IntegerLaws, Multiples) {
  const std::vector<z3::expr> facts = {d >= 1, Multiples(w, Div(v + a, d), d), Multiples(w, t, d)};
  const z3::expr solved = v == Laws::Multiple(a, d, w);
  EXPECT_TRUE(Holds(facts, (Mod(v + a, d) == 0 && Div(v + a, d) == w) == solved));
  EXPECT_TRUE(Holds(facts, implies(Laws::Multiple(a, d, w) == Laws::Multiple(a, d, t), w == t)));
  EXPECT_FALSE(Holds(facts, (Div(v + a, d) == w) == solved));
}

// Digits of equal numbers are equal, and a small number that is a multiple is zero.
TEST_F(IntegerLaws, DigitsApart) {
  const z3::expr lemma = Multiples(a, zero, d), number = d * a + b;
  EXPECT_TRUE(Holds({d >= 1, lemma, Within(b, 1 - d, d)}, (number == 0) == Says(Laws::Apart(a, b))));
  EXPECT_FALSE(Holds({d >= 1, lemma, Within(b, -d, d)}, (number == 0) == Says(Laws::Apart(a, b))));
  EXPECT_TRUE(Holds({d >= 1, lemma, Within(b, zero, d)}, Within(number, zero, d) == Says(Laws::Within(a))));
  EXPECT_FALSE(Holds({d >= 1, lemma, Within(b, zero, d + 1)}, Within(number, zero, d) == Says(Laws::Within(a))));
}

// 0 <= d b + a says 0 <= b + a div d, and a < d b says a div d < b: lemmas about bounds beside quotients.
TEST_F(IntegerLaws, BoundsBesideAQuotient) {
  const z3::expr quotient = Div(a, d);
  const std::vector<z3::expr> facts = {d >= 1, Multiples(b, quotient, d), Multiples(b, -quotient, d)};
  EXPECT_TRUE(Holds(facts, (d * b + a >= 0) == (b + quotient >= 0)));
  EXPECT_TRUE(Holds(facts, (a < d * b) == (quotient < b)));
  EXPECT_FALSE(Holds(facts, (a <= d * b) == (quotient < b)));
}

}  // namespace
}  // namespace rewright
