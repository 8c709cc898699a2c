// Values of Index and Cond expressions over numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/expr.h"

namespace rewright {

// The value with variable v at variables[v]. Nothing where a number on the way does not fit 64 bits or a divisor is not
// positive, and where elements are read. Of `and` and `or` the second side is looked at only where the first does not
// decide.
std::optional<int64_t> EvalIndex(const ExprPtr& expr, const std::vector<int64_t>& variables);
std::optional<bool> EvalCond(const ExprPtr& expr, const std::vector<int64_t>& variables);

}  // namespace rewright
