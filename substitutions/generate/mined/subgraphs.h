// The frequent subgraphs of a collection of graphs: small connected sets of applications that occur often, up to sizes
// and the names of tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/stop.h"
#include "core/ir/graph.h"

namespace rewright::generate {

struct MineOptions {
  int max_nodes = 3;
  int64_t min_count = 2;  // occurrences in all graphs together
  StopFlag stop = nullptr;
};

struct FrequentSubgraph {
  // Operators, how they are connected, and which operands are known before a run: "relu(conv2d(x1,k1))". The same text
  // for the same subgraph, however a graph orders its nodes.
  std::string form;
  int64_t count = 0;          // of occurrences
  int64_t graphs = 0;         // that have it
  size_t graph = 0;           // that has the first occurrence, by number
  std::vector<NodeId> nodes;  // of the first occurrence, operands before users
};

struct MinedSubgraphs {
  std::vector<FrequentSubgraph> subgraphs;  // from frequent to rare, large ones first; then by form
  int64_t nodes = 0;                        // applications that run, in all graphs
  int64_t left_out = 0;                     // those that are no operator of a space
};

// Nodes are connected by a value that one computes for the other, or that both read and a run computes. Each connected
// set of at most `max_nodes` applications that run counts once.
MinedSubgraphs MineSubgraphs(const std::vector<Graph>& graphs, const MineOptions& options);

}  // namespace rewright::generate
