// Models with nodes that nobody here computes (core/ops/foreign.h), cut open at those nodes: what they give becomes
// inputs, what they read becomes outputs.
//
// Two models with the same such nodes compute the same if the cut ones do. Let x be inputs, and c what the nodes give
// in A. The operands of every node are equal functions of x and c in both, so with c each node of B gives what it gives
// in A; and since no node of B reads what depends on itself, that is what they give in B. The converse does not hold:
// some c may never come about.
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
