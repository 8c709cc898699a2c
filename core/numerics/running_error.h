// Bounds for all elements of a value that is computed from known leaves how far rounding may move them: the running
// error analysis of Higham (Accuracy and Stability of Numerical Algorithms, 3.3), to first order.
//
//   error(f(a, b)) = |df/da| error(a) + |df/db| error(b) + local(f)
//
// local(f) is half a unit in the last place of the result for + - * / and the root of elements, whose roundings are
// correct, and what core/numerics/rounding_op.h says for all else, in the types of the graph. A single such operation
// on operands without an error has the error that it makes: none where the result is a number of its type.
#pragma once

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

struct RunningError {
  Tensor value;                 // in f64 if it is floating
  std::optional<Tensor> error;  // f64; none: nothing is rounded
  bool bounded = true;          // false: an operator whose roundings are unknown is on the way
};

// Half a unit in the last place of the type at x, and half of its smallest subnormal number at least.
double HalfUnitAt(DType dtype, double x);

struct RunningErrorOptions {
  // Values that are these numbers over the reals, with these errors: leaves, or results of operators that have one.
  absl::flat_hash_map<Value, RunningError> instead;
  bool leaves_rounded = false;  // all other leaves are off by half a unit in the last place
  int threads = 1;
};

// Returns the bounds for a known value of the arena. Errors: those of the interpreter.
absl::StatusOr<RunningError> RunningErrorOf(const std::shared_ptr<Arena>& arena, Value value,
                                            const RunningErrorOptions& options);

}  // namespace rewright
