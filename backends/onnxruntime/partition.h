// Which nodes are measured together in onnxruntime.
//
// onnxruntime makes kernels of several operators by patterns of its own; what it made is part of what is measured, so
// that a group need not be one kernel. It is large enough for the usual patterns:
//   1. A product or convolution with the elementwise operators behind it, each the only reader of the one before, and
//      the transpositions that it alone reads.
//   2. Elementwise operators, reductions, softmax and what broadcasts or reshapes, gathered backwards from a sink:
//      normalizations and activations that are written in parts.
//   3. Everything else is alone.
#pragma once

#include <vector>

#include "core/ir/device.h"
#include "core/ir/graph.h"

namespace rewright::ort {

// All groups, operands before users. Each has one node whose outputs escape, the last.
std::vector<Group> GroupsOf(const Graph& graph);

}  // namespace rewright::ort
