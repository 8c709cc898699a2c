// A rank's graph as graphs that run between collectives: as few, one after the other, as the collectives' order allows.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/parallel/subgraphs.h"
#include "runtime/parallel/rank_graph.h"

namespace rewright {

struct Stages {
  // The pieces of RankGraph::graph; states in the order of RankGraph::states. Its outputs end with the collectives'
  // operands.
  Pieces pieces;
  std::vector<std::vector<int>> collectives;  // that follow a piece: numbers of RankGraph::collectives
  std::vector<int> outputs;                   // of RankGraph::graph, in order, without the operands
  std::vector<int> operands;                  // of the collectives
};

// Errors: a collective that waits for itself.
absl::StatusOr<Stages> StagesOf(const RankGraph& rank);

// The uses by tensor of the pieces. Stage s runs at time 2s, the collectives behind it at 2s + 1.
struct StageUses {
  std::vector<Use> uses;       // of those that share memory: neither inputs nor states, nor what follows
  std::vector<bool> has_next;  // a next value with memory of its own, which a run exchanges for the state's
};
StageUses UsesOf(const RankGraph& rank, const Stages& stages);

}  // namespace rewright
