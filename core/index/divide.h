// Floor division and its remainder, by the laws of laws.h (form.h lists them).
#pragma once

#include "core/index/form.h"

namespace rewright::index {

Form FloorDiv(const Form& a, const Form& b);
Form Mod(const Form& a, const Form& b);
// Forms, for the laws of laws.h.
struct Forms {
  using Number = Form;
  static Form FloorDiv(const Form& a, const Form& b) { return index::FloorDiv(a, b); }
  static Form Mod(const Form& a, const Form& b) { return index::Mod(a, b); }
};
// Splits a = quotient * b + rest; the quotient takes every term that is a multiple of b.
void Divide(const Form& a, const Form& b, Form* quotient, Form* rest);

}  // namespace rewright::index
