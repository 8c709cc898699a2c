// Comparison of two tensors.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor/tensor.h"

namespace rewright {

// Result of comparing two tensors. Elements are equal if they are the same number, the same infinity, or both NaN. The
// differences are infinite if exactly one of two elements is NaN or infinite, or if both are infinite with different
// signs.
struct Comparison {
  bool same_type = true;  // else nothing was compared
  double max_abs = 0;     // greatest |a - b|
  double max_rel = 0;     // greatest |a - b| / |b|; infinite where only b is 0
  int64_t worst = -1;     // linear index of the element that exceeds the tolerance most; -1: all are equal
  double worst_a = 0;
  double worst_b = 0;
  bool close = true;  // |a - b| <= atol + rtol * |b| everywhere
  std::string text;   // one line for people: the types, or the worst element and the differences
};

// b is the reference. Integers and booleans have to be equal: no tolerance applies to them.
Comparison Compare(const Tensor& a, const Tensor& b, double rtol = 0, double atol = 0);

// Returns how far apart elements of outputs that ought to be equal may be unless a user says so, of outputs of that
// largest magnitude: 1e-4 of it, since an element near zero carries the rounding errors of the terms that cancelled in
// it; 8 roundings of it in types of 16 bits, since operators round to them, and devices less often than operators do.
double DefaultDistance(DType dtype, double largest);

// Returns `actual` with the elements of `expected` where these are infinities or no numbers.
Tensor WhereNumbersAre(const Tensor& expected, const Tensor& actual);

// Returns the largest magnitude of a finite element; 0 if there is none.
double LargestMagnitude(const Tensor& tensor);

// Returns the first element that is not finite; -1 if there is none.
int64_t FirstNotFinite(const Tensor& tensor);

// Returns the position of element number `linear` in row-major order.
Shape PositionOf(const Shape& shape, int64_t linear);

}  // namespace rewright
