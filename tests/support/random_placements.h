// Graphs cut over devices in tests: random placements of their leaves, and the laws.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/ir/graph.h"
#include "substitutions/sharding/shard.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {

// Cuts most of the inputs and states that can be cut into `degree` blocks, each along a random axis.
std::vector<sharding::Placement> RandomPlacements(const Graph& graph, int64_t degree, std::mt19937_64& rng);

// The laws that all tests of a program share: a cut is not made if its law is not proved within a second of CPU time.
ProvedLaws& LawsOfTests();
// Cuts the graph by them; an error fails the test.
sharding::Sharded Cut(const Graph& graph, const std::vector<sharding::Placement>& placements, int64_t degree);

}  // namespace rewright
