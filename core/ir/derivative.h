// Derivatives of scalar functions, as expressions (core/ir/functions.def).
#pragma once

#include <vector>

#include "core/ir/expr.h"

namespace rewright {

// Of a call of a function: the derivative by each of its arguments, in terms of the arguments and of the call itself,
// so that a result that exists is used. A null Scalar (node() is null) where it is zero wherever it exists, where the
// function is of integers or truth values or compares, or where the argument is a number that wins no ties.
std::vector<Scalar> Partials(const Scalar& call);

}  // namespace rewright
