// Decisions of a graph about numbers that rewrites may round otherwise: roundings to integers and comparisons.
#pragma once

#include "core/ir/graph.h"

namespace rewright {

// Marks with Arena::KeepBits every application whose result reaches a rounding of floating-point numbers to integers
// (round, floor, a conversion), or a sum that rounds on purpose (rounding_sums.h), and those sums themselves. Returns
// the number of marked applications.
int KeepRoundings(const Graph& graph);

// Counts comparisons, and positions of extrema, of `rewritten` that read values which `original`, of the same arena,
// does not compute.
int ComparisonsAfter(const Graph& original, const Graph& rewritten);

}  // namespace rewright
