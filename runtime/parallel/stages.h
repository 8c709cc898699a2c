// A rank's graph as graphs that run between collectives: as few, one after the other, as the collectives' order allows.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/parallel/rank_graph.h"

namespace rewright {

// Tensors that stages and collectives exchange have numbers: first the inputs of RankGraph::graph, in order, then its
// states in training, in the order of RankGraph::states, then what stages make.
struct Stages {
  struct Stage {
    Graph graph;                       // in training its states are inputs
    std::vector<int> inputs, outputs;  // tensors, in the order of the graph's
    std::vector<int> collectives;      // that follow it: numbers of RankGraph::collectives
  };
  std::vector<Stage> stages;
  std::vector<TensorType> tensors;
  std::vector<int> outputs;   // of RankGraph::graph, in order
  std::vector<int> operands;  // of the collectives
};

// Errors: a collective that waits for itself.
absl::StatusOr<Stages> StagesOf(const RankGraph& rank);

}  // namespace rewright
