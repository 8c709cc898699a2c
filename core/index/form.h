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
  friend bool IsNonNegative(const Form& form);
  struct Hash {
    size_t operator()(const Atom* atom) const;
  };
  struct Equal {
    bool operator()(const Atom* a, const Atom* b) const;
  };
  const Atom* Intern(Atom atom);

  std::deque<Atom> atoms_;
  absl::flat_hash_set<const Atom*, Hash, Equal> interned_;
  absl::flat_hash_map<Form, bool> non_negative_;  // answers of IsNonNegative about forms with symbols
  int fresh_ = 0;
};

}  // namespace rewright::index
