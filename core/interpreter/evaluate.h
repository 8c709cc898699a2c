// Evaluation for fingerprints: the interpreter (core/interpreter/interpreter.h) over exact integers and over a prime
// field.
//
// Two graphs that are equal over the reals have equal values under kPrimeField up to the stand-ins of
// core/interpreter/evaluate_field.h, and unequal ones differ with probability about 1 - degree / 2^61 at random points.
// Under kExactInteger, max, min, abs and comparisons are the true ones as well; + - * wrap around in 64 bits,
// infinities are the ends of the range, and exp, log, sqrt, erf, tanh, sigmoid are keyed hashes (erf and tanh made
// odd). A sample on which some value does not exist (a division by zero, a quotient that is no integer) fails with an
// OutOfRangeError; take another.
//
// Tensors of floating type are i64 tensors under these carriers: the integer itself, or the field element as an
// integer in [0, 2^61 - 1). Integer and boolean tensors are as ever.
#pragma once

#include "absl/status/statusor.h"
#include "core/interpreter/evaluate_field.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/tensor.h"

namespace rewright {

// The tensor as the carrier stores it. A finite floating element that is no integer is an OutOfRangeError under
// kExactInteger. What needs no change is shared.
absl::StatusOr<Tensor> ToCarrier(const Tensor& tensor, Carrier carrier);

}  // namespace rewright
