// Windows: parts of a graph that are searched by themselves.
//
// A window is convex: a node on a path between two of its nodes is in it, so that no rewrite inside can close a cycle
// through the outside. search/windows/window_cuts.h chooses the places of the cuts.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"
#include "substitutions/match/node_signatures.h"

namespace rewright {

// A window as a graph of its own. Values computed outside are inputs; weights are weights, with their own data.
struct GraphWindow {
  std::vector<NodeId> nodes;    // of the graph that it was cut from
  Graph graph;                  // in an arena of its own
  std::vector<Value> leaves;    // inputs and weights of `graph`, in the order of its nodes
  std::vector<Value> outer;     // the value outside for each of them
  std::vector<Value> escaping;  // the value outside for each output of `graph`
};

// The nodes at these positions, ascending, which run at inference and are convex together.
GraphWindow CutWindow(const Graph& graph, const std::vector<int>& positions);

// Equal for two windows, given by positions as above, when a search cannot tell them apart: operators, attributes,
// types, wiring, aliased leaves, kinds of leaves, escaping values, and of constants and weights whatever conditions of
// rules and devices read. Leaves of equal windows correspond in order. Written straight from the graph: a window that
// was searched before need not be cut out.
using WindowKey = std::vector<uint64_t>;
WindowKey KeyOfWindow(const Graph& graph, const std::vector<int>& positions, NodeSignatures& signatures);

// The outputs of `solution` outside, when it takes the place of `window`: its nodes are added to `outer`, with the
// names of the replaced ones. It is in the arena of a window with the same key whose leaves were `leaves`.
std::vector<Value> Splice(const Graph& solution, const std::vector<Value>& leaves, const GraphWindow& window,
                          Arena& outer);

}  // namespace rewright
