// The inside of forms, for the sources of core/index.
#pragma once

#include <utility>
#include <vector>

#include "core/index/form.h"

namespace rewright::index {

class FormBuilder {
 public:
  // a + factor * b, with laws of div and mod left aside.
  static Form Combine(const Form& a, const Form& b, int64_t factor);
  // Terms in any order, with repetitions.
  static Form Sum(int64_t constant, std::vector<Form::Term> terms);
  // The atom of an operation on known forms, not both constant.
  static Form Operation(Atom::Kind kind, const Form& a, const Form& b);
  // The product of atoms that are no products.
  static Form Product(std::vector<const Atom*> factors);
};

// The term alone.
inline Form OfTerm(const Form::Term& term) {
  return FormBuilder::Combine(Form(), Form::OfAtom(term.atom), term.factor);
}

// The product of atom's factors without those of `by`; false where these are not among them.
bool DivideMonomial(const Atom* atom, const Atom* by, Form* quotient);

// The greatest number, times the product of all atoms, that every term of `a` and of `b`, and the constant of `b`, has
// as a factor.
Form CommonFactor(const Form& a, const Form& b);

}  // namespace rewright::index
