// Internals of forms, for the sources of core/index.
#pragma once

#include <utility>
#include <vector>

#include "core/index/form.h"

namespace rewright::index {

class FormBuilder {
 public:
  // Returns a + factor * b without applying the laws of div and mod.
  static Form Combine(const Form& a, const Form& b, int64_t factor);
  // Builds a form from terms in any order, with repetitions.
  static Form Sum(int64_t constant, std::vector<Form::Term> terms);
  // Returns the atom of an operation on known forms, not both constant.
  static Form Operation(Atom::Kind kind, const Form& a, const Form& b);
  // Returns the product of atoms that are no products.
  static Form Product(std::vector<const Atom*> factors);
};

// The term alone.
inline Form OfTerm(const Form::Term& term) {
  return FormBuilder::Combine(Form(), Form::OfAtom(term.atom), term.factor);
}

// Returns the product of atom's factors without those of `by`; false if these are not among them.
bool DivideMonomial(const Atom* atom, const Atom* by, Form* quotient);

// Returns the greatest common factor (a number, times the product of common atoms) of every term of `a` and of `b`, and
// of the constant of `b`.
Form CommonFactor(const Form& a, const Form& b);

}  // namespace rewright::index
