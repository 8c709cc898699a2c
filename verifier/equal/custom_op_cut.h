// Cuts models open at nodes that this project does not compute (core/ops/foreign.h): their results become inputs, their
// operands become outputs.
//
// Two models with the same such nodes compute the same if the cut ones do. Let x be the inputs, and c the results of
// the nodes in A. The operands of every node are equal functions of x and c in both models, so with c each node of B
// gives what it gives in A. Since no node of B reads a value that depends on itself, c are its results in B, too. The
// converse does not hold: some c may never come about.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

struct ForeignCut {
  Graph graph;
  // The names of the inputs and outputs that were added, equal for the same node of another model.
  std::set<std::string> names;

  // True if the output is one of those, or depends on one of those inputs.
  bool Concerns(const std::string& output) const;
};

// A graph without such nodes is left as it is.
absl::StatusOr<ForeignCut> CutAtForeign(const Graph& graph);

}  // namespace rewright
