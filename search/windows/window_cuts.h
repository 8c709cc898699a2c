// Chooses the places at which a graph is cut into windows.
//
// A border is a set of nodes that contains the operands of its members. A window is the part between one border and the
// next, so it is convex: a node on a path between two of its nodes is in it, and no rewrite inside can close a cycle
// through the outside. A border may move within a band of half a window, and is laid where the fewest tensors cross it:
//
//   - behind a node that every path from the inputs to the outputs passes, where the band has one. These are the
//     dominators of the end (with one source before and one sink behind everything they are the articulation points
//     between the two), found for the whole graph at once;
//   - else along a minimum cut of the band, of all sets that contain their operands: not only those that the order of
//     the graph's nodes has together.
//
// Both depend on the graph alone. The algorithms are Boost.Graph's: lengauer_tarjan_dominator_tree,
// push_relabel_max_flow.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace rewright {

// Windows of about `size` nodes that run at inference, inputs first: positions in graph.nodes(), ascending. Every node
// that runs is in one of them. `shift` moves the first border by that part of a window, 0 <= shift < 1: windows of two
// shifts overlap.
std::vector<std::vector<int>> CutIntoWindows(const Graph& graph, int size, double shift);

}  // namespace rewright
