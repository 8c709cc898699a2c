// The text of forms, for people and for C.
#pragma once

#include <string>

#include "core/index/form.h"

namespace rewright::index {

// Prints the form: 4*y + x div 3 + 1.
std::string Text(const Form& form);
// Prints the form in C: a literal, a name, or in parentheses. Quotients and remainders whose dividend may be negative
// call floor_div and floor_mod, minima and maxima index_min and index_max.
std::string CText(const Form& form);

}  // namespace rewright::index
