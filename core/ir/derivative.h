// Derivatives of scalar functions, as expressions (core/ir/functions.def).
#pragma once

#include <vector>

#include "core/ir/expr.h"

namespace rewright {

// Returns the derivative of a call of a function by each of its arguments, in terms of the arguments and of the call
// itself, so that the computed result is reused. An entry is a null Scalar (node() is null) if the derivative is zero
// wherever it exists, if the function is of integers or truth values or compares, or if the argument is a number that
// wins no ties.
std::vector<Scalar> Partials(const Scalar& call);

}  // namespace rewright
