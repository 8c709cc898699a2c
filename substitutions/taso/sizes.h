// Sizes of tensors as polynomials, and the equations between them that the operators of a rule demand.
//
// An equation is used to eliminate a size (a = b + c: a is b + c from then on) if that leaves all sizes positive. The
// linear span of the others is searched for such equations (a + b = c + d and c + b = a + d give a = c). The rest stay
// equations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "substitutions/language/rule.h"

namespace rewright::taso {

// An integer polynomial in sizes, which are numbered.
class Size {
 public:
  using Monomial = std::vector<int>;  // sorted; empty: 1

  Size() = default;  // 0
  explicit Size(int64_t value) {
    if (value != 0) terms_[{}] = value;
  }
  static Size Of(int variable);

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  friend bool operator==(const Size& a, const Size& b) { return a.terms_ == b.terms_; }
  friend bool operator<(const Size& a, const Size& b) { return a.terms_ < b.terms_; }

  bool IsZero() const { return terms_.empty(); }
  bool Is(int64_t value) const { return *this == Size(value); }
  const std::map<Monomial, int64_t>& terms() const { return terms_; }
  // this / divisor, where it is a polynomial and the divisor has one term.
  std::optional<Size> DividedBy(const Size& divisor) const;

 private:
  std::map<Monomial, int64_t> terms_;
};

class Sizes {
 public:
  // `hint` is the beginning of its name.
  Size New(const std::string& hint);
  // numerator div divisor, rounded down. The same for the same numerator.
  Size Quotient(const Size& numerator, int64_t divisor);

  // Demands a = b. False where they can never be equal, or where the polynomials grow out of hand.
  bool Equate(const Size& a, const Size& b);
  // Draws conclusions from all equations together. False as above.
  bool Solve();
  // Equations that are left over, each as a = b.
  std::vector<std::pair<Size, Size>> Rest() const;
  // True if the equations imply a = b.
  bool Implied(const Size& a, const Size& b) const;
  // Leaves the equations so far out of Rest(): they are implied anyway.
  void ForgetRest();

  // Replaces every size that was eliminated.
  Size Resolve(const Size& size) const;
  // Prints the size as text of a rule; a size gets its name when it is first printed.
  ArgExpr Print(const Size& size);

 private:
  struct Variable {
    std::string hint, name;
    std::optional<Size> value;  // eliminated
    Size numerator;             // of a quotient
    int64_t divisor = 0;
  };
  bool Eliminate(const Size& difference);
  bool MergeQuotients();
  std::string NameOf(int variable);

  std::vector<Variable> variables_;
  std::vector<Size> open_;  // that are zero
  std::vector<Size> implied_;
  std::map<std::string, int> used_names_;
};

}  // namespace rewright::taso
