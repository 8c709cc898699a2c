// A graph in training whose states and inputs belong to ranks: each rank computes what depends on its own alone. What
// depends on those of several, such as the norm of all gradients, is computed by all of them, from what each sends to
// the others. So the operations and their order are those of one rank, and so are the bits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/device.h"
#include "runtime/comm/communicator.h"
#include "runtime/parallel/pieces.h"
#include "runtime/signature.h"

namespace rewright {

class OwnedExecutable : public Executable {
 public:
  // `owners` are ranks by name of a state or input; what has none all ranks have. The communicator and the runner's
  // device outlive the executable. Errors: those of the runner.
  static absl::StatusOr<std::unique_ptr<OwnedExecutable>> Create(const Graph& graph,
                                                                 const std::map<std::string, int>& owners,
                                                                 Communicator& ranks, GraphRunner& runner);

  // Called by all ranks together. Inputs of others may be empty; results are there for all.
  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override;
  // Called by all ranks together: from who has it to all.
  absl::StatusOr<Tensor> ReadState(const std::string& name) override;
  // What this rank has of a state, which runs change; an empty tensor where it is another's.
  absl::StatusOr<Tensor> LocalState(const std::string& name) const;

  int64_t arena_bytes() const override;
  int64_t peak_live_bytes() const override { return arena_bytes(); }
  int64_t state_bytes() const;  // of this rank
  // What this rank sends in a run.
  int64_t bytes_sent() const;

 private:
  struct Leaf {
    std::string name;
    int owner = -1;  // -1: all
  };

  OwnedExecutable(const Graph& graph, Communicator& ranks) : signature_(graph), ranks_(ranks) {}
  absl::Status Init(const Graph& graph, const std::map<std::string, int>& owners, GraphRunner& runner);
  absl::Status PlanTensors(const Graph& graph);
  bool IsMine(int owner) const { return owner < 0 || owner == ranks_.rank(); }
  // Pieces of a level: that of all ranks, then those of each.
  int PieceOf(int level, int owner) const { return level * (ranks_.size() + 1) + owner + 1; }
  absl::Status RunPiece(int piece);
  absl::Status Share(int level);
  absl::Status Update();
  absl::StatusOr<size_t> Find(const std::string& name) const;

  const Signature signature_;
  Communicator& ranks_;
  std::vector<Leaf> inputs_, states_;
  int levels_ = 0;
  Pieces pieces_;
  std::vector<std::unique_ptr<Executable>> executables_;
  std::vector<std::vector<std::pair<int, int>>> shared_;  // by level: tensors that all need behind it, and who has them
  std::vector<std::pair<int, size_t>> updates_;           // tensors that become states of this rank, by number
  std::vector<int> results_;
  std::vector<Tensor> tensors_;
  SharedMemory kept_;
  int64_t runs_ = 0;
};

}  // namespace rewright
