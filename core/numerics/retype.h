// A graph with all its floating-point numbers in one type.
#pragma once

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

struct Retyped {
  Graph graph;                                       // in an arena of its own, with the same names
  ValueMap values;                                   // by value of the original
  absl::flat_hash_map<NodeId, NodeId> applications;  // by node of the original
};

struct RetypeOptions {
  DType to = DType::kFloat32;
  // For derivatives: floating operands of operators that have none are held (the value itself, of which the derivative
  // is 0), and an extremum of a window has one by its terms (ExtremumTermsOp).
  bool for_derivatives = false;
};

// Elements of weights and constants are rounded to the type, attributes that name a floating type name this one. Error:
// an operator that does not take the type, named with its node.
absl::StatusOr<Retyped> Retype(const Graph& graph, const RetypeOptions& options);

// The tensor with elements of another floating type; what needs no change is shared.
absl::StatusOr<Tensor> Converted(const Tensor& tensor, DType to);

}  // namespace rewright
