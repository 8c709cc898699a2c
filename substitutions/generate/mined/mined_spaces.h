// Spaces of the frequent subgraphs of models: the operators that occur together, over tensors as they read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "substitutions/generate/enumerate/space.h"
#include "substitutions/generate/mined/subgraphs.h"

namespace rewright::generate {

struct MinedSpaces {
  std::vector<Space> spaces;              // by frequency of what they are made from
  std::vector<std::string> explanations;  // of each space: its subgraph; of the others: why there is none
};

// At most `max_spaces` spaces, each with the operators of one subgraph; none has only operators of another. The sizes
// of the tensors that the subgraph reads become variables, equal ones the same, drawn small such that the subgraph is
// legal. `seed` draws them.
MinedSpaces SpacesOf(const std::vector<Graph>& graphs, const MinedSubgraphs& mined, int max_spaces, uint64_t seed);

}  // namespace rewright::generate
