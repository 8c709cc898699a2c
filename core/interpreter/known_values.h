// Computes known values of a graph before it runs. Nothing else does, so that the devices, the written file and its
// check hold the same numbers.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Returns the values that are computed from known leaves alone and read at run time, or by the caller. Leaves are
// excluded. In order of first use.
std::vector<Value> FoldedValues(const Graph& graph);

// Divides the values into parts, no two of which need the same application: computing the parts one by one does no more
// work than computing all at once, and takes the memory of one part. In order of their first values.
std::vector<std::vector<Value>> IndependentParts(const Arena& arena, const std::vector<Value>& values);

// Returns the elements of known values, in that order, by the interpreter; they do not depend on the number of threads.
// Errors: ResourceExhausted if the results need more memory than is available; those of InterpretGraph for data that
// the operators do not admit.
absl::StatusOr<std::vector<Tensor>> ComputeKnown(const std::shared_ptr<Arena>& arena, const std::vector<Value>& values,
                                                 int threads = 1);

}  // namespace rewright
