// Facts of the elements of a tensor, and what a scalar function makes of them.
//
// Facts speak of elements as they are over the real numbers: no operation on the way rounds or overflows. Only
// `held_by` and `rounded` speak of floating-point numbers. Facts are sound and not complete: an interval holds all
// elements and perhaps others, a flag "may" is set wherever the contrary is not shown.
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
// The type and those that hold every number of it; all of them for integers and truth values.
FloatTypes TypesAbove(DType dtype);
bool Holds(FloatTypes types, DType dtype);

struct Facts {
  Interval range;                 // of all elements that exist; truth values are 0 and 1
  double smallest = 0;            // no element other than 0 is smaller in magnitude; 0: nothing is known
  bool nonzero = false;           // no element is 0
  bool integral = false;          // all elements are integers
  bool may_be_undefined = false;  // some element may have no value, as 0 / 0: NaN
  bool may_be_infinite = false;   // some element may be an infinity, as 1 / 0
  // Types in which all elements are numbers, if nothing before them rounded. Underflow to 0 is left aside.
  FloatTypes held_by = 0;
  bool rounds = false;   // an operation of the application itself may round
  bool rounded = false;  // that, or one before it: what a run computes may be another number

  static Facts Of(double value);
  // An unknown element of the type: finite where it is a float.
  static Facts Unknown(DType dtype);
  bool IsNonnegative() const { return range.lo >= 0; }
  bool IsPositive() const { return range.lo >= 0 && nonzero; }
  std::string ToString() const;  // "[0, 1], nonzero"
};

// Facts of an element that is one of either.
Facts Join(const Facts& a, const Facts& b);

// Draws from the interval what it says: elements that cannot be 0, and of which magnitude the smallest are.
void Tighten(Facts* facts);

// f(a, b) where all are computed in the type `dtype`, that of the arguments. Functions of one argument ignore b.
Facts CallFacts(Fn fn, DType dtype, const Facts& a, const Facts& b);

// a * a, of one and the same element.
Facts SquareFacts(DType dtype, const Facts& a);

// The sum or product of `fewest` to `most` terms, in that type.
Facts SumFacts(DType dtype, const Facts& term, double fewest, double most);
Facts ProductFacts(DType dtype, const Facts& factor, double fewest, double most);

// The element as one of type `to`.
Facts CastFacts(DType from, DType to, const Facts& a);

// Leaves of a result what is left when it is computed in, or stored as, an element of that type: marks what rounds, and
// takes integers that may wrap for unknown.
void Round(DType dtype, Facts* facts);

}  // namespace rewright
