// A graph cut into subgraphs that are compiled and run one by one, and the tensors that they hand on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "core/tensor/tensor.h"

namespace rewright {

// Tensors have numbers: first the inputs of the graph, in order, then its states in training, then what subgraphs
// make for others or as outputs.
struct Subgraphs {
  struct Subgraph {
    Graph graph;                                  // in training states are inputs, but for those it keeps
    std::vector<int> inputs, outputs;             // tensors, in the order of the graph's
    absl::flat_hash_map<NodeId, NodeId> origins;  // of its nodes, those of the whole graph
  };
  std::vector<Subgraph> subgraphs;
  std::vector<TensorType> tensors;
  std::vector<int> makers;   // by tensor, the subgraph that makes it; -1: an input or state
  std::vector<int> outputs;  // of the graph, in order; next values of states among them
  // States that exactly one subgraph reads and updates. Its executable has them and overwrites them in place. By the
  // state's tensor, which is also the updated output.
  struct StateOwner {
    int subgraph = 0;
    std::string state;  // its name
  };
  std::map<int, StateOwner> state_owners;
};

// `numbers` are those of the subgraphs of all nodes, by position in nodes(); a node reads no result of a later
// subgraph. Values that are known before a run are in every subgraph that needs them, and so are nodes that only move
// elements (a transpose, a reshape): neither is handed on, and no kernel reads another layout because of a cut.
// `states` are all of the graph, in the order of their tensors.
Subgraphs SplitGraph(const Graph& graph, const std::vector<int>& numbers, int count, const std::vector<Value>& states);

// The executable of each subgraph; null: there is nothing to compute, or another rank computes it.
using SubgraphExecutables = std::vector<std::unique_ptr<Executable>>;
// Makes the tensors of states that subgraphs keep what their executables have now, until the next run.
absl::Status ViewOwnedStates(const Subgraphs& subgraphs, const SubgraphExecutables& executables,
                             std::vector<Tensor>* tensors);
// Gives the state that is `tensor` another value, of which a rank has its block along the axis, or all (-1): where it
// is kept, or else in the tensor.
absl::Status WriteState(const Subgraphs& subgraphs, const SubgraphExecutables& executables, int tensor,
                        const Tensor& value, int axis, int rank, std::vector<Tensor>* tensors);

// Runs what computes a subgraph on its tensors, each of which is, or is to be, at(number); nothing where it is null.
absl::Status RunSubgraph(Executable* executable, const Subgraphs::Subgraph& subgraph,
                         const std::function<Tensor&(int)>& at);

// When a tensor is used by subgraphs that run at the times 0, 1, ..; never where last < 0.
struct Use {
  int first = 0, last = -1;

  void Add(int time) {
    first = last < 0 ? time : std::min(first, time);
    last = std::max(last, time);
  }
};
// Adds the uses of the tensors that a subgraph reads and makes.
void AddUses(const Subgraphs::Subgraph& subgraph, int time, std::vector<Use>* uses);
// The executable of a subgraph, and the time at which it runs; null: nothing.
struct SubgraphRun {
  Executable* executable = nullptr;
  int time = 0;
};

// One memory for subgraphs that run one by one: for the tensors that they hand on and for their arenas. Tensors and
// arenas that are not in use at the same time may lie in the same place.
class SharedMemory {
 public:
  SharedMemory() = default;
  // Tensor k is of types[k], and left out where it is never used. Executables that are no ArenaUser keep what they
  // have. Errors: too little memory.
  static absl::StatusOr<SharedMemory> Place(const std::vector<TensorType>& types, const std::vector<Use>& uses,
                                            const std::vector<SubgraphRun>& runs, std::vector<Tensor>* tensors);
  // The same in other memory of shared_bytes(). REQUIRES: those that Place was given.
  void MoveTo(std::shared_ptr<void> memory, const std::vector<SubgraphRun>& runs, std::vector<Tensor>* tensors);

  int64_t shared_bytes() const { return bytes_; }
  // With what executables have of their own.
  int64_t bytes() const { return bytes_ + own_bytes_; }

 private:
  std::vector<std::pair<size_t, TensorType>> planned_;  // tensors
  std::vector<size_t> users_;                           // runs
  std::vector<int64_t> offsets_;                        // of both, one behind the other
  int64_t bytes_ = 0, own_bytes_ = 0;
};

// Memory that a subgraph takes while it runs: shared with other subgraphs, and of its own.
struct SubgraphBytes {
  int64_t shared = 0, own = 0;
};
using SubgraphBytesOf = std::function<absl::StatusOr<SubgraphBytes>(const Graph& subgraph)>;

}  // namespace rewright
