// Ranges, signs and bounds of forms.
#pragma once

#include <cstdint>
#include <vector>

#include "core/index/form.h"

namespace rewright::index {

// The range of the result of an operation, kIndexAdd to kIndexMax, on operands of these ranges.
Interval RangeOf(ExprKind operation, const Interval& a, const Interval& b);
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

}  // namespace rewright::index
