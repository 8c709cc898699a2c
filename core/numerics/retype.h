// Converts all floating-point numbers of a graph to one type.
#pragma once

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

struct Retyped {
  Graph graph;                                       // in an arena of its own, with the same names
  ValueMap values;                                   // by value of the original
  absl::flat_hash_map<NodeId, NodeId> applications;  // by node of the original
  // Values that are written in another way for their derivatives alone, and the plain ones that they are.
  ValueMap plain;
};

struct RetypeOptions {
  DType to = DType::kFloat32;
  // Prepares for derivatives: floating operands of operators without a derivative are held (the value itself, with
  // derivative 0), and an extremum of a window gets a derivative by its terms (ExtremumTermsOp).
  bool for_derivatives = false;
};

// Elements of weights and constants are rounded to the type, and attributes that name a floating type name this one.
// Error: an operator that does not admit the type, named with its node.
absl::StatusOr<Retyped> Retype(const Graph& graph, const RetypeOptions& options);

// Returns the tensor with elements of another floating type; a tensor that already has it is shared.
absl::StatusOr<Tensor> Converted(const Tensor& tensor, DType to);

}  // namespace rewright
