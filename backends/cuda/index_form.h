// Integer expressions of generated kernels in a normal form: constant + sum of coefficient * atom.
//
// The sizes of a kernel are numbers, so most index arithmetic folds away while it is generated: an atom is a loop
// variable, a quotient or rest by a constant, a minimum, maximum or product that is not linear, or a number read from
// memory. Every form knows bounds of its value, so that a comparison which always holds is dropped, and
//   (d*a + b) div d = a + b div d,   d*(a div d) + a mod d = a
// are applied, which turns the row-major position that a reshape computes back into a flat position. Two forms with
// equal text are equal functions; that is how common subexpressions and neighbouring addresses are found.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rewright::cuda {

class IndexForm {
 public:
  IndexForm(int64_t constant = 0) : constant_(constant) {}  // NOLINT: an integer is a form

  // A variable of the kernel that takes the values low..high; `depth` tells in which scope it lives, 0 outermost.
  static IndexForm Variable(const std::string& name, int64_t low, int64_t high, int depth);
  // A 64-bit number of which nothing is known but its name.
  static IndexForm Unknown(const std::string& name, int depth);
  bool IsBounded() const;

  bool IsConstant() const { return terms_.empty(); }
  int64_t constant() const { return constant_; }
  // Bounds of the value, both inclusive; saturated at +-2^62.
  int64_t low() const;
  int64_t high() const;
  // Of the deepest variable in it; -1 for a constant.
  int depth() const;
  // The largest magnitude of a number that computing the text goes through in the type of the loop variables.
  int64_t magnitude() const;
  // The variables that it depends on.
  void CollectVariables(std::set<std::string>* names) const;
  // How far one step of a variable leads, where the variable stands alone; 0 where it does not occur so.
  int64_t StepOf(const std::string& variable) const;
  // The greatest number that divides the constant and all coefficients; 0 for the form 0.
  int64_t divisor() const;
  // A C expression; a literal, a name, or in parentheses.
  std::string text() const;

  friend IndexForm operator+(const IndexForm& a, const IndexForm& b);
  friend IndexForm operator-(const IndexForm& a, const IndexForm& b);
  friend IndexForm operator*(const IndexForm& a, const IndexForm& b);
  // Rounded down; b is a positive constant.
  friend IndexForm FloorDiv(const IndexForm& a, int64_t b);
  friend IndexForm Mod(const IndexForm& a, int64_t b);
  friend IndexForm Min(const IndexForm& a, const IndexForm& b);
  friend IndexForm Max(const IndexForm& a, const IndexForm& b);

 private:
  struct Atom;
  struct Term {
    int64_t coefficient = 0;
    std::shared_ptr<const Atom> atom;
  };

  static IndexForm OfAtom(Atom atom);
  static Atom Inner(const std::string& text, int64_t low, int64_t high, const IndexForm& a, const IndexForm& b);
  void Accumulate(const IndexForm& other, int64_t factor);
  void Recombine();

  int64_t constant_ = 0;
  std::map<std::string, Term> terms_;  // by the atom's text
};

// The position along each axis of element number `flat` in row-major order.
std::vector<IndexForm> Unflatten(const IndexForm& flat, const std::vector<int64_t>& sizes);

}  // namespace rewright::cuda
