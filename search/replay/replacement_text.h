// A replacement as text: for steps of a search that are no match of one rule, such as an extraction from an e-graph.
//
// The text is a printed graph (core/ir/text.h). Its inputs are values of the graph before the step, `n12.0` for output
// 0 of the node at position 12 of Graph::nodes(); its outputs are named after the values that they replace:
//
//   input n3.0: f32[4,8]
//   %0 = relu(n3.0)
//   output n5.0 = %0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Prints the replacement of values of `graph` by values of its arena. Values that `graph` computes already are not
// computed again.
std::string PrintReplacement(const Graph& graph, const ValueMap& replacement);

// Builds the replacing values in the graph's arena. The text may come from anywhere. Errors: it is no graph, has
// weights, an input or output is no value of `graph` or has another type.
absl::StatusOr<ValueMap> ParseReplacement(const Graph& graph, const std::string& text);

}  // namespace rewright
