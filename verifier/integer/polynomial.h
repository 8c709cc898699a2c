// Integer polynomials: the index arithmetic of the verifier. A variable is a number whose meaning is kept in a
// Context; floor divisions enter as variables with a definition there. Values, immutable once built.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace rewright::verifier {

using Var = int32_t;
// Sorted, with repetition; empty for the constant.
using Monomial = absl::InlinedVector<Var, 4>;

class Poly {
 public:
  struct Item {
    Monomial vars;
    int64_t coef = 0;
    friend bool operator==(const Item& a, const Item& b) { return a.coef == b.coef && a.vars == b.vars; }
    friend bool operator<(const Item& a, const Item& b) { return a.vars != b.vars ? a.vars < b.vars : a.coef < b.coef; }
  };

  Poly() = default;                                             // zero
  Poly(int64_t constant);                                       // NOLINT: an integer is a polynomial
  Poly(int constant) : Poly(static_cast<int64_t>(constant)) {}  // NOLINT
  static Poly Of(Var v);
  static Poly Of(const Monomial& vars, int64_t coef);
  // Sorts, merges equal monomials and drops zeros.
  static Poly FromItems(std::vector<Item> items);

  // Sorted by monomial; no coefficient is zero.
  const std::vector<Item>& items() const { return items_; }
  bool IsZero() const { return items_.empty(); }
  bool IsConst() const { return items_.empty() || (items_.size() == 1 && items_[0].vars.empty()); }
  // The coefficient of the empty monomial.
  int64_t Constant() const { return items_.empty() || !items_[0].vars.empty() ? 0 : items_[0].coef; }
  // The coefficient of the monomial that is v alone.
  int64_t Coef(Var v) const;
  bool Contains(Var v) const;
  // v occurs in exactly one monomial, which is v alone.
  bool IsLinearIn(Var v) const;
  // Distinct variables, sorted (definitions are not looked into).
  std::vector<Var> Vars() const;
  // p = a * v + b with v in neither a nor b; false when v occurs with a higher power.
  bool Decompose(Var v, Poly* a, Poly* b) const;
  // The multiples of the product, divided by it, and the rest.
  std::pair<Poly, Poly> Divided(const Monomial& by) const;

  friend Poly operator+(const Poly& a, const Poly& b);
  friend Poly operator-(const Poly& a, const Poly& b);
  friend Poly operator-(const Poly& a);
  friend Poly operator*(const Poly& a, const Poly& b);
  friend bool operator==(const Poly& a, const Poly& b) { return a.items_ == b.items_; }
  friend bool operator!=(const Poly& a, const Poly& b) { return !(a == b); }
  friend bool operator<(const Poly& a, const Poly& b) { return a.items_ < b.items_; }
  template <typename H>
  friend H AbslHashValue(H h, const Poly& p) {
    for (const Item& item : p.items_) h = H::combine(std::move(h), item.vars, item.coef);
    return h;
  }

 private:
  std::vector<Item> items_;
};

// Exact quotient of monomials; false when b does not divide a.
bool DivideMonomial(const Monomial& a, const Monomial& b, Monomial* quotient);
// The same of polynomials, for a divisor of one monomial: false when it does not divide all of p.
bool DivideExactly(const Poly& p, const Poly& divisor, Poly* quotient);
Monomial MultiplyMonomials(const Monomial& a, const Monomial& b);

// A simultaneous substitution of variables by polynomials; small, searched linearly.
class Substitution {
 public:
  void Set(Var v, Poly value);
  void Erase(Var v);
  const Poly* Find(Var v) const;
  bool empty() const { return entries_.empty(); }
  const std::vector<std::pair<Var, Poly>>& entries() const { return entries_; }
  std::vector<std::pair<Var, Poly>>& entries() { return entries_; }

 private:
  std::vector<std::pair<Var, Poly>> entries_;
};

}  // namespace rewright::verifier
