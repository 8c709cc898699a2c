// Values of Index and Cond expressions over numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/expr.h"

namespace rewright {

// The value with variable v at variables[v]. Nothing where a number on the way does not fit 64 bits or a divisor is not
// positive, and where elements are read.
std::optional<int64_t> EvalIndex(const ExprPtr& expr, const std::vector<int64_t>& variables);
// Whether there is a value, and what it is: for the generator, which asks for millions. A returned optional is stored
// byte by byte and loaded as a whole, for which the processor waits.
bool EvalIndex(const ExprNode& expr, const std::vector<int64_t>& variables, int64_t* value);
// The same of one operator on two indices, kIndexAdd to kIndexMax.
bool EvalIndex(ExprKind kind, int64_t a, int64_t b, int64_t* value);

// Likewise. Of `and` and `or` the second side is looked at only where the first does not decide.
std::optional<bool> EvalCond(const ExprPtr& expr, const std::vector<int64_t>& variables);

}  // namespace rewright
