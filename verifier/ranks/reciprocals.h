// Constants that are a rounded 1/n as quotients. A program that reads or writes a graph may have divided two constants
// beforehand, and ranks divide by other numbers than one device.
#pragma once

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// The graph in which each constant of f32 whose elements are all the nearest number to 1/n, for an n of at most 2^20,
// is the quotient of 1 and n.
absl::StatusOr<Graph> WithQuotients(const Graph& graph);

}  // namespace rewright
