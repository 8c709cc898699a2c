// The laws by which quotients and remainders are simplified and equations between indices are solved, each stated once,
// over any integers.
//
// A law of quotients gives the numbers of an equal quotient. A law of equations replaces conditions on an unknown v by
// v = value, and conditions that other numbers are 0 or at least 0. It keeps the solutions and their number. The
// integers are forms for the solver (divide.cc, solve.cc) of derivatives, interpreter and costs, polynomials of symbols
// for the prover (verifier/integer/context.cc, verifier/normal_form/eliminate.cc), and terms of Z3 and cvc5 in
// tests/verifier/integer_laws_test.cc, which proves every law as it is written here.
//
// An Arithmetic divides, rounding down: Number FloorDiv(Number, Number) and Mod(Number, Number). The caller of a law
// makes sure that divisors are positive and that the law's assumptions hold.
#pragma once

#include <cstdint>
#include <vector>

namespace rewright::index {

template <typename Arithmetic>
struct Laws {
  using Number = typename Arithmetic::Number;

  struct Conclusion {
    std::vector<Number> value;        // of the unknown; none if the law only states conditions
    std::vector<Number> zero;         // these are 0
    std::vector<Number> nonnegative;  // these are at least 0
  };

  Arithmetic& arithmetic;

  // ---- quotients and remainders

  // n div d = a + Rest div d, for every a; Rest = n mod d, for a = n div d
  static Number Rest(const Number& n, const Number& d, const Number& a) { return n - d * a; }

  // (x div c + r) div d = dividend div divisor
  struct Fraction {
    Number dividend, divisor;
  };
  static Fraction Nested(const Number& x, const Number& c, const Number& r, const Number& d) {
    return {c * r + x, c * d};
  }

  // (g*a + s) div (g*d) = a div d, and (g*a + s) mod (g*d) = Scaled of a mod d, where 0 <= s < g
  static Number Scaled(const Number& g, const Number& rest, const Number& s) { return g * rest + s; }

  // (x mod (c*d)) div c = (x div c) mod d
  Number Digits(const Number& x, const Number& c, const Number& d) const { return Mod(Div(x, c), d); }

  // ---- equations

  // v + a = 0, and -v + a = 0
  static Number Solve(int64_t sign, const Number& a) { return sign > 0 ? -a : a; }

  // c*v = e
  Conclusion Scale(const Number& c, const Number& e) const { return {{Div(e, c)}, {Mod(e, c)}, {}}; }

  // v + d*q = e, where 0 <= v < d
  Conclusion Digit(const Number& d, const Number& q, const Number& e) const {
    return {{Mod(e, d)}, {q - Div(e, d)}, {}};
  }

  // p mod d = r, p div d = e
  static Conclusion Radix(const Number& p, const Number& d, const Number& r, const Number& e) {
    return {{}, {p - (d * e + r)}, {r, d - r - 1}};
  }

  // (v + a) div d = e, for one 0 <= t < d each
  static Number Quotient(const Number& a, const Number& d, const Number& e, const Number& t) { return d * e + t - a; }

  // d divides v + a, where 0 <= v < d
  Number Residue(const Number& a, const Number& d) const { return Mod(-a, d); }

  // v, under a div or mod by d: for one h and one 0 <= t < d each
  static Number Split(const Number& d, const Number& h, const Number& t) { return d * h + t; }

  // 0 <= e - d*v < d
  Number Range(const Number& d, const Number& e) const { return Div(e, d); }

  // a div d = e
  static Conclusion Opened(const Number& a, const Number& d, const Number& e) {
    const Number rest = a - d * e;
    return {{}, {}, {rest, d - 1 - rest}};
  }

  // d divides v + a: for one w each
  static Number Multiple(const Number& a, const Number& d, const Number& w) { return d * w - a; }

  // d*a + b = 0, where -d < b < d
  static Conclusion Apart(const Number& a, const Number& b) { return {{}, {a, b}, {}}; }

  // 0 <= d*a + b < d, where 0 <= b < d
  static Conclusion Within(const Number& a) { return {{}, {a}, {}}; }

 private:
  Number Div(const Number& a, const Number& b) const { return arithmetic.FloorDiv(a, b); }
  Number Mod(const Number& a, const Number& b) const { return arithmetic.Mod(a, b); }
};

}  // namespace rewright::index
