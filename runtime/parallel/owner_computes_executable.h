// A graph in training whose states and inputs belong to ranks, by the owner-computes rule. Each rank computes the nodes
// that depend on its own states and inputs alone. Nodes that depend on those of several ranks, such as the norm of all
// gradients, are computed by all ranks, from the values that each sends to the others. So the operations and their
// order are those of one rank, and so are the bits.
//
// The graph may be cut, besides, over replicas: ranks that own the same in other groups. Each replica then has its
// blocks of the cut tensors, and collectives on a rank's values run between its replicas and itself. Thread-safe: calls
// of several threads take turns, and a call that is made during a run waits until the run has ended all its exchanges.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/communicator.h"
#include "runtime/parallel/rank_graph.h"
#include "runtime/parallel/run_collective.h"
#include "runtime/parallel/subgraphs.h"
#include "runtime/signature.h"

namespace rewright {

class OwnerComputesExecutable : public DistributedExecutable {
 public:
  // `owners` are ranks by name of a state or input; what has none all ranks have. `graph` is cut over as many devices
  // as there are replicas, where these are several. The communicators and the runner's device outlive the executable.
  // Errors: those of GraphOfRank and of the runner.
  static absl::StatusOr<std::unique_ptr<OwnerComputesExecutable>> Create(const Graph& graph,
                                                                         const std::map<std::string, int>& owners,
                                                                         Communicator& ranks, Communicator& replicas,
                                                                         GraphRunner& runner);

  // Called by all ranks together, replicas included. Inputs of others may be empty, of what is cut a rank gives its
  // block; results are whole and there for all.
  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override;
  // Called by all ranks together: from who has it to all.
  absl::StatusOr<Tensor> ReadState(const std::string& name) override;
  // Called by each rank for itself, with the whole value.
  absl::Status WriteState(const std::string& name, const Tensor& value) override;
  // This rank's part of a state, until the next run; an empty tensor if another rank owns the state.
  absl::StatusOr<Shard> LocalState(const std::string& name) const;
  // The axis along which replicas have their blocks of an input, or of a state; -1: all of it.
  int AxisOfInput(size_t number) const { return inputs_[number].axis; }
  absl::StatusOr<int> AxisOfState(const std::string& name) const;

  int64_t arena_bytes() const override { return memory_.bytes(); }
  int64_t peak_live_bytes() const override { return arena_bytes(); }
  int64_t state_bytes() const;  // of this rank
  int64_t bytes_sent() const override;
  int64_t BytesSentToRead(const std::string& name) const override;

 private:
  struct Leaf {
    std::string name;
    TensorType whole;
    int axis = -1;
    int owner = -1;  // -1: all
  };
  // Between replicas, behind its level.
  struct Gather {
    size_t collective = 0;  // its number
    int operand = 0, result = 0;
  };

  OwnerComputesExecutable(const Graph& graph, Communicator& ranks, Communicator& replicas)
      : signature_(graph), ranks_(ranks), replicas_(replicas) {}
  absl::Status Init(const Graph& graph, const std::map<std::string, int>& owners, GraphRunner& runner);
  // Splits rank_.graph.
  absl::Status MakeSubgraphs(const std::map<std::string, int>& owners, GraphRunner& runner);
  void FindExchanges();
  absl::Status PlanTensors();
  bool IsMine(int owner) const { return owner < 0 || owner == ranks_.rank(); }
  // Subgraphs of a level: that of all ranks, then those of each.
  int SubgraphOf(int level, int owner) const { return level * (ranks_.size() + 1) + owner + 1; }
  absl::Status Share(int level);
  absl::Status RunCollectives(int level);
  absl::Status Update();

  const Signature signature_;
  Communicator& ranks_;
  Communicator& replicas_;
  RankGraph rank_;
  std::vector<Leaf> inputs_, states_;
  // The rank that has a tensor, and the level behind which it has it.
  struct Place {
    int owner = -1, level = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  static std::vector<Place> PlacesOf(const RankGraph& rank, const std::map<std::string, int>& owners);
  std::vector<Place> places_;
  int levels_ = 0;
  Subgraphs subgraphs_;
  SubgraphExecutables executables_;
  std::vector<std::vector<std::pair<int, int>>> shared_;  // by level: tensors that all need behind it, and who has them
  std::vector<std::vector<Gather>> collectives_;          // by level, this rank's
  std::vector<std::pair<int, size_t>> updates_;           // tensors that become states of this rank, by number
  std::vector<int> results_;
  mutable std::mutex mutex_;  // of what follows: calls take turns
  std::vector<Tensor> tensors_;
  SharedMemory memory_;  // of subgraphs
  int64_t runs_ = 0;
};

}  // namespace rewright
