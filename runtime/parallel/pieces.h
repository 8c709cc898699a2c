// A graph in pieces that are compiled and run one by one, and the tensors that they hand on.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/ir/tensor.h"

namespace rewright {

// Tensors have numbers: first the inputs of the graph, in order, then its states in training, then what pieces make for
// others or as outputs.
struct Pieces {
  struct Piece {
    Graph graph;                                  // in training its states are inputs
    std::vector<int> inputs, outputs;             // tensors, in the order of the graph's
    absl::flat_hash_map<NodeId, NodeId> origins;  // of its nodes, those of the whole graph
  };
  std::vector<Piece> pieces;
  std::vector<TensorType> tensors;
  std::vector<int> makers;   // by tensor, the piece that makes it; -1: an input or state
  std::vector<int> outputs;  // of the graph, in order; next values of states among them
};

// `numbers` are those of the pieces of all nodes, by position in nodes(); what a node reads is made by no later piece.
// What is known before a run is in every piece that needs it, and so is what only moves elements (a transpose, a
// reshape): neither is handed on, and no kernel reads another layout because of a cut. `states` are all of the graph,
// in the order of their tensors.
Pieces PiecesOf(const Graph& graph, const std::vector<int>& numbers, int count, const std::vector<Value>& states);

// What the pieces made for output `output` of the graph, for the caller to change: a copy where a piece reads it, or
// where other outputs are the same tensor. `tensors` are those of the pieces, by number.
Tensor TakeOutput(const Pieces& pieces, size_t output, std::vector<Tensor>* tensors);

// Memory for tensors that pieces hand on, which run at the times 0, 1, ..: those whose uses are not at the same time
// share it. `lifetimes[k]` are bytes, first and last time of use of tensor k; it is left out where last < 0.
struct SharedMemory {
  std::shared_ptr<void> memory;
  int64_t bytes = 0;
};
struct Use {
  int first = 0, last = -1;
};
absl::StatusOr<SharedMemory> PlaceTensors(const std::vector<TensorType>& types, const std::vector<Use>& uses,
                                          std::vector<Tensor>* tensors);

}  // namespace rewright
