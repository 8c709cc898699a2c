// Computes a part of a graph in a narrower type.
#pragma once

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Returns the graph with these applications computed on operands that are converted to the type `to`, and with results
// of that type. Other applications, and the caller, read results that are converted back: a value is converted once
// each way. f32 alone becomes narrower; weights keep their type and are converted as any value. Error: an application
// that does not admit the type, named with its node.
absl::StatusOr<Graph> WithNarrowNodes(const Graph& graph, const absl::flat_hash_set<NodeId>& nodes, DType to);

// Returns the graph in which these applications compute in f32 on operands that are rounded to the type: each f32
// operand is converted to it and back, once for all that read it. Error: as of the conversion.
absl::StatusOr<Graph> WithRoundedOperands(const Graph& graph, const absl::flat_hash_set<NodeId>& nodes, DType to);

// Adds the application to its arena on other operands, with the type `to` where attributes name f32. Error: it does not
// admit that.
absl::StatusOr<NodeId> AddNarrow(Arena& arena, NodeId id, std::vector<Value> operands, DType to);

}  // namespace rewright
