// Facts about the elements of a tensor, and their propagation through scalar functions.
//
// Facts are about elements over the real numbers: no operation before them rounds or overflows. Only `held_by` and
// `rounded` are about floating-point numbers. Facts are sound and not complete: an interval holds all elements and
// possibly others, and a flag "may" is set unless the contrary is shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/functions.h"
#include "core/numerics/interval.h"
#include "core/tensor/dtype.h"

namespace rewright {

// A set of floating types, a bit each.
using FloatTypes = uint8_t;
inline constexpr FloatTypes kAllFloats = 15;  // f16, bf16, f32, f64
// Returns the type and those that hold every number of it; all for integers and truth values.
FloatTypes TypesAbove(DType dtype);
bool Holds(FloatTypes types, DType dtype);

struct Facts {
  Interval range;                 // of all elements that exist; truth values are 0 and 1
  double smallest = 0;            // no element other than 0 is smaller in magnitude; 0: unknown
  bool nonzero = false;           // no element is 0
  bool integral = false;          // all elements are integers
  bool may_be_undefined = false;  // some element may have no value, as 0 / 0: NaN
  bool may_be_infinite = false;   // some element may be an infinity, as 1 / 0
  // Types in which all elements are numbers, if nothing before them rounded. Underflow to 0 is ignored.
  FloatTypes held_by = 0;
  bool rounds = false;   // an operation of the application itself may round
  bool rounded = false;  // that, or one before it: a run may compute another number

  static Facts Of(double value);
  // Returns the facts of an unknown element of the type: finite if it is a float.
  static Facts Unknown(DType dtype);
  bool IsNonnegative() const { return range.lo >= 0; }
  bool IsPositive() const { return range.lo >= 0 && nonzero; }
  std::string ToString() const;  // "[0, 1], nonzero"
};

// Returns the facts of an element that is one of the two.
Facts Join(const Facts& a, const Facts& b);

// Derives from the interval whether elements can be 0, and their smallest magnitude.
void Tighten(Facts* facts);

// Returns the facts of f(a, b), computed in the type `dtype` of the arguments. Functions of one argument ignore b.
Facts CallFacts(Fn fn, DType dtype, const Facts& a, const Facts& b);

// Returns the facts of a * a, of one and the same element.
Facts SquareFacts(DType dtype, const Facts& a);

// Returns the facts of the sum or product of `fewest` to `most` terms, in that type.
Facts SumFacts(DType dtype, const Facts& term, double fewest, double most);
Facts ProductFacts(DType dtype, const Facts& factor, double fewest, double most);

// Returns the facts of the element converted to type `to`.
Facts CastFacts(DType from, DType to, const Facts& a);

// Restricts the facts of a result to those that hold after it is computed in, or stored as, an element of that type:
// marks roundings, and treats integers that may wrap as unknown.
void Round(DType dtype, Facts* facts);

}  // namespace rewright
