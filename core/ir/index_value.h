// Values of Index and Cond expressions over numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/expr.h"

namespace rewright {

// Evaluates an index with variable v at variables[v]. Nothing if an intermediate number does not fit 64 bits, a divisor
// is not positive, or elements are read.
std::optional<int64_t> EvalIndex(const ExprPtr& expr, const std::vector<int64_t>& variables);
// Returns true and sets `value` if the expression has a value. The generator asks for millions of values; a returned
// std::optional is stored byte by byte and loaded as a whole, which stalls the processor.
bool EvalIndex(const ExprNode& expr, const std::vector<int64_t>& variables, int64_t* value);
// Evaluates one operator on two indices, kIndexAdd to kIndexMax.
bool EvalIndex(ExprKind kind, int64_t a, int64_t b, int64_t* value);

// Evaluates a condition likewise. The second side of `and` and `or` is evaluated only if the first does not decide.
std::optional<bool> EvalCond(const ExprPtr& expr, const std::vector<int64_t>& variables);

}  // namespace rewright
