// What of a graph is known before it runs.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace rewright {

// The values that are computed from weights and constants alone and read by something at run time, or by the caller:
// to be computed when the graph is compiled. Leaves are not among them. In order of first use.
std::vector<Value> FoldedValues(const Graph& graph);

}  // namespace rewright
