// What of a graph is known before it runs: computed here and nowhere else, so that the devices, the file that is
// written and the check of it hold the same numbers.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// The values that are computed from known leaves alone and read by something at run time, or by the caller. Leaves are
// not among them. In order of first use.
std::vector<Value> FoldedValues(const Graph& graph);

// The elements of known values, in that order, by the interpreter; they do not depend on the number of threads. Errors:
// ResourceExhausted where the results need more memory than there is; what InterpretGraph says of data that the
// operators do not admit.
absl::StatusOr<std::vector<Tensor>> ComputeKnown(const std::shared_ptr<Arena>& arena, const std::vector<Value>& values,
                                                 int threads = 1);

}  // namespace rewright
