// Random placements of the leaves of a graph.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/ir/graph.h"
#include "substitutions/sharding/shard.h"

namespace rewright {

// Most of the inputs and states that can be cut into `degree` blocks, each along a random axis.
std::vector<sharding::Placement> RandomPlacements(const Graph& graph, int64_t degree, std::mt19937_64& rng);

}  // namespace rewright
