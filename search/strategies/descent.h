// Greedy descent, in rounds.
//
// A round judges all rewrites of the graph, picks the ones that promise to pay, the best of those that overlap, and
// carries them out all at once (Explorer::Take).
#pragma once

#include <vector>

#include "core/ir/graph.h"
#include "search/strategies/explorer.h"

namespace rewright {

// The proposals that do not overlap with one before them, sorted from the outputs towards the inputs.
std::vector<Proposal> Disjoint(std::vector<Proposal> proposals);

// Descends from the original and from the second start. The cheaper end, of which `graph` becomes the view.
SearchState DescendFromStarts(Explorer& explorer, Graph* graph);

// Takes cheaper rewrites until there is none, see search.h. `state`, of which `graph` is the view, becomes the local
// optimum.
void Descend(Explorer& explorer, SearchState* state, Graph* graph);

}  // namespace rewright
