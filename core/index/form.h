// The algebra of indices: integer forms over variables with ranges.
//
//   4*y + x div 3 + 1          a form: a sum of integer multiples of atoms, and a constant
//   y, x, x div 3, H*W         atoms: variables, symbols, quotients, remainders, minima, maxima and products of those
//
// A *variable* takes every value of its range. A *symbol* is a fixed but unknown number, for instance the size of a
// tensor. Without symbols all factors are numbers. With symbols a factor is a polynomial of symbols, since a product of
// atoms is an atom: (H*W)*y is the multiple 1 of the atom H*W*y. Division rounds down.
//
// Forms are kept normal: equal forms are equal functions (the converse does not hold). Let r be the remaining terms of
// the dividend. The laws of div and mod are
//   (d*a + r) div d = a + r div d           (d*a + r) mod d = r mod d
//   r div d = 0,  r mod d = r               for 0 <= r < d
//   (g*a + s) div (g*d) = a div d           (g*a + s) mod (g*d) = g*(a mod d) + s       for 0 <= s < g
//   (a + x div c) div d = (c*a + x) div (c*d)
//   (x mod (c*d)) div c = (x div c) mod d   (x mod (c*d)) mod c = x mod c
//   d*(a div d) + a mod d = a               d*((a div d) mod c) + a mod d = a mod (c*d)
//
// Arithmetic that does not fit 64 bits gives an *unknown* form, as does a divisor that is a number below 1. A form
// computed from an unknown form is unknown, and nothing is ever concluded from one.
//
// A Space owns the atoms and must outlive the forms over them; forms of two spaces do not mix. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "core/ir/expr.h"

namespace rewright::index {

struct Atom;
class Space;

// Bounds of a value, both inclusive. An end of -kInfinity or kInfinity is open.
inline constexpr int64_t kInfinity = int64_t{1} << 62;
struct Interval {
  int64_t low = -kInfinity;
  int64_t high = kInfinity;
  bool IsBounded() const { return low > -kInfinity && high < kInfinity; }
  friend bool operator==(const Interval& a, const Interval& b) { return a.low == b.low && a.high == b.high; }
};

// An integer form; cheap to copy.
class Form {
 public:
  struct Term {
    const Atom* atom = nullptr;
    int64_t factor = 0;
    friend bool operator==(const Term& a, const Term& b) { return a.atom == b.atom && a.factor == b.factor; }
  };

  Form(int64_t constant = 0) : constant_(constant) {}  // NOLINT: an integer is a form
  static Form OfAtom(const Atom* atom);
  static Form Unknown();

  bool IsKnown() const { return known_; }
  bool IsConstant() const { return known_ && terms_.empty(); }
  bool Is(int64_t value) const { return IsConstant() && constant_ == value; }
  int64_t constant() const { return constant_; }
  // By atom, see Precedes; no factor is 0.
  absl::Span<const Term> terms() const { return terms_; }
  // Returns the factor of an atom, 0 if it is not among the terms.
  int64_t FactorOf(const Atom* atom) const;
  // Returns the greatest common divisor of the constant and all factors; 0 for the form 0.
  int64_t Divisor() const;
  // Returns the atom if the form is a single one; else null.
  const Atom* AsAtom() const;

  friend Form operator+(const Form& a, const Form& b);
  friend Form operator-(const Form& a, const Form& b);
  friend Form operator*(const Form& a, const Form& b);
  friend bool operator==(const Form& a, const Form& b) {
    return a.known_ && b.known_ && a.constant_ == b.constant_ && a.terms_ == b.terms_;
  }
  friend bool operator!=(const Form& a, const Form& b) { return !(a == b); }
  template <typename H>
  friend H AbslHashValue(H h, const Form& form) {
    for (const Term& term : form.terms_) h = H::combine(std::move(h), term.atom, term.factor);
    return H::combine(std::move(h), form.constant_, form.terms_.size());
  }

 private:
  friend class FormBuilder;
  int64_t constant_ = 0;
  bool known_ = true;
  std::vector<Term> terms_;
};

inline Form operator-(const Form& a) { return Form(0) - a; }

Form FloorDiv(const Form& a, const Form& b);
Form Mod(const Form& a, const Form& b);
Form CeilDiv(const Form& a, const Form& b);  // (a + b - 1) div b
Form Min(const Form& a, const Form& b);
Form Max(const Form& a, const Form& b);
// Applies the operation of an expression's kind, kIndexAdd to kIndexMax.
Form Apply(ExprKind kind, const Form& a, const Form& b);

struct Atom {
  enum class Kind : uint8_t { kSymbol, kVariable, kFloorDiv, kMod, kMin, kMax, kProduct };

  Kind kind = Kind::kVariable;
  Space* space = nullptr;
  int id = 0;  // in the order of creation
  // Name and tag of a symbol or variable. The user defines the meaning of `tag`; equal leaves with other tags are
  // different.
  std::string name;
  int tag = 0;
  Form extent;  // of a variable with a symbolic range: it is at least 0 and less than this
  // kFloorDiv, kMod, kMin, kMax.
  Form a, b;
  Form quotient;                     // kMod: a div b
  std::vector<const Atom*> factors;  // kProduct: two or more, none a product, ascending by id

  // Derived.
  Interval range;
  int64_t magnitude = 0;            // see Magnitude
  bool symbolic = false;            // facts about it depend on symbols
  bool recombines = false;          // a remainder whose quotient is no constant is among its factors
  std::vector<const Atom*> leaves;  // the symbols and variables in it, ascending by id

  bool IsLeaf() const { return kind == Kind::kSymbol || kind == Kind::kVariable; }
};

// Returns the factors of a product, or the atom itself if it is none. The atom must outlive the result.
inline absl::Span<const Atom* const> FactorsOf(const Atom* const& atom) {
  if (atom->kind == Atom::Kind::kProduct) return atom->factors;
  return absl::Span<const Atom* const>(&atom, 1);
}

// Orders terms by the ids of their factors, lexicographically.
bool Precedes(const Atom* a, const Atom* b);

class Space {
 public:
  Space() = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  Form Symbol(const std::string& name, int64_t low, int64_t high = kInfinity, int tag = 0);
  // Makes a variable with the values low..high; the constant `low` if these are equal.
  Form Variable(const std::string& name, Interval range, int tag = 0);
  // Makes a variable with the values 0..extent-1.
  Form Variable(const std::string& name, const Form& extent, int tag = 0);
  // Makes a variable that equals no other; without an extent it takes every value.
  Form Fresh(const std::string& name, const Form& extent) { return Variable(name, extent, --fresh_); }
  Form Fresh(const std::string& name) { return Variable(name, Interval(), --fresh_); }

 private:
  friend class FormBuilder;
  struct Hash {
    size_t operator()(const Atom* atom) const;
  };
  struct Equal {
    bool operator()(const Atom* a, const Atom* b) const;
  };
  const Atom* Intern(Atom atom);

  std::deque<Atom> atoms_;
  absl::flat_hash_set<const Atom*, Hash, Equal> interned_;
  int fresh_ = 0;
};

// ---------------------------------------------------------------- facts about a form

Interval RangeOf(const Form& form);
// True if ranges show it, or, for polynomials of symbols, the ranges of the symbols; false if it is not seen.
bool IsNonNegative(const Form& form);
inline bool IsPositive(const Form& form) { return IsNonNegative(form - 1); }
// 0 <= form < extent.
inline bool IsWithin(const Form& form, const Form& extent) {
  return IsNonNegative(form) && IsNonNegative(extent - form - 1);
}
// Returns a form over symbols alone that bounds `form` from above (`upper`) or below; unknown if none is seen. The
// bound may be loose if variables occur in several terms.
Form BoundOf(const Form& form, bool upper);
// Returns the largest magnitude of a number in the evaluation of the form as written; at most kInfinity.
int64_t Magnitude(const Form& form);
// Returns the symbols and variables that occur, ascending by id.
std::vector<const Atom*> LeavesOf(const Form& form);
bool Contains(const Form& form, const Atom* leaf);
// Returns the number of values of a variable that starts at 0.
Form ExtentOf(const Atom* variable);

// ---------------------------------------------------------------- structure

// Splits form = factor * leaf + rest, with `leaf` in neither; false if that is not possible.
bool SplitAt(const Form& form, const Atom* leaf, Form* factor, Form* rest);
// form = constant + sum of factors[k] * leaves[k], with none of the leaves in `constant` and `factors`. AffineIn
// returns nothing if the form is not of that shape.
struct Affine {
  Form constant;
  std::vector<Form> factors;
};
std::optional<Affine> AffineIn(const Form& form, absl::Span<const Atom* const> leaves);
// Splits a = quotient * b + rest; the quotient takes every term that is a multiple of b.
void Divide(const Form& a, const Form& b, Form* quotient, Form* rest);

// A replacement of a leaf; all are made at once. `scale` > 1 means scale * leaf = value: multiples of the leaf take the
// value as it is, and elsewhere the leaf is value div scale.
struct Replacement {
  Form value;
  Form scale = 1;
};
using Substitution = absl::flat_hash_map<const Atom*, Replacement>;
Form Compose(const Form& form, const Substitution& substitution);

// Writes every a mod c, c a number, as a - c*(a div c), unless `keep` is true for the atom. The address that digits of
// one number lead to becomes a sum over fewer atoms.
template <typename Keep>
Form ExpandMods(const Form& form, const Keep& keep) {
  Form result = form;
  for (const Form::Term& term : form.terms()) {
    const Atom& mod = *term.atom;
    if (mod.kind != Atom::Kind::kMod || !mod.b.IsConstant() || keep(mod)) continue;
    const Form value = ExpandMods(mod.a, keep) - mod.b * ExpandMods(mod.quotient, keep);
    result = result + (value - Form::OfAtom(&mod)) * term.factor;
  }
  return result;
}

// Returns the position along each axis of element number `flat` in row-major order.
std::vector<Form> Unflatten(const Form& flat, const std::vector<int64_t>& sizes);

// Prints the form: 4*y + x div 3 + 1.
std::string Text(const Form& form);
// Prints the form in C: a literal, a name, or in parentheses. Quotients and remainders whose dividend may be negative
// call floor_div and floor_mod, minima and maxima index_min and index_max.
std::string CText(const Form& form);

}  // namespace rewright::index
