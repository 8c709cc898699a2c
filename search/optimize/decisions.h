// Decisions of a graph about numbers that rewrites may round otherwise: roundings to integers and comparisons.
#pragma once

#include "core/ir/graph.h"

namespace rewright {

// Says of all applications before a rounding to integers of floating-point numbers (round, floor, a conversion), and
// of sums that round on purpose (rounding_sums.h) with all before them, that they keep their bits (Arena::KeepBits);
// how many these are.
int KeepRoundings(const Graph& graph);

// Counts comparisons, and positions of extrema, of `rewritten` that read values which `original`, of the same arena,
// does not compute.
int ComparisonsAfter(const Graph& original, const Graph& rewritten);

}  // namespace rewright
