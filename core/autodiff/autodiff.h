// Differentiates graphs by applications of derived operators (core/adjoint/operators.h), in the arena of the
// differentiated graph. No operator is named here; sums of cotangents are `add`, zeros an expanded constant.
//
// Integers and truth values have neither cotangents nor tangents. A derived operator that copies its operand is left
// out, and so is one that is zero. Results are ordinary values: gradients of gradients are gradients of these.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Reverse mode: by each value of `by`, the sum over i of <cotangents[i], values[i]> differentiated, of the type of that
// value. Values in `by` may be intermediate. Errors: a value of `values` or `by` that is of no floating type; a
// cotangent that is not of the type of its value; an operator on the way that has no derivative, named with its node.
absl::StatusOr<std::vector<Value>> PullBack(Arena& arena, const std::vector<Value>& values,
                                            const std::vector<Value>& cotangents, const std::vector<Value>& by);

// Gradients of one number, the loss: PullBack with cotangent 1.
absl::StatusOr<std::vector<Value>> Gradients(Arena& arena, Value loss, const std::vector<Value>& by);

// Forward mode: returns the derivative of each value as each `along` moves along its tangent.
absl::StatusOr<std::vector<Value>> PushForward(Arena& arena, const std::vector<Value>& values,
                                               const std::vector<std::pair<Value, Value>>& along);

}  // namespace rewright
