// The gradients of a step over ranks, layer by layer (runtime/parallel/layers.h): while one is computed, the gradients
// of the one before are summed over the ranks, and the weights of the next one are gathered.
//
//   zero 0, 1  Each rank adds the gradients of its micro-batches itself; behind the last one those of a layer are
//              summed as soon as its backward pass is done. Zero 1: every rank gets its blocks of the sums alone.
//   zero 2     The ranks take the micro-batches in turns, and after each layer's backward pass every rank gets its
//              blocks of all ranks' gradients: a rank never has more of them whole than a layer's.
//   zero 3     Likewise; and of weights each rank has its blocks. Those of a layer are gathered before its forward and
//              its backward pass, one layer ahead, into the memory of two layers.
//
// The order of additions is that of the tree over micro-batches (runtime/comm/all_reduce.h), on whichever ranks they
// happen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/worker_thread.h"
#include "runtime/parallel/layers.h"
#include "runtime/parallel/rank_executable.h"
#include "runtime/training/parallel/gradient_sums.h"

namespace rewright {

struct LayeredOptions {
  int zero = 0;
  int64_t bucket_bytes = int64_t{25} << 20;  // of gradients, before a layer ends
  int64_t micro_batches = 1;
  std::vector<int> block_axes;  // of the step's inputs, as a rank needs them; -1: all of it. Empty: all of all
  std::function<std::vector<Group>(const Graph&)> groups;  // that the device runs as one; null: none is known
};

// The plan by which a rank runs its layers.
struct LayeredPlan {
  // The memory that they share, what some have beside it, and with zero 3 weights that are gathered, less the blocks
  // that other ranks have.
  int64_t bytes = 0;
  std::vector<Group> groups;  // of the gradients, in the order in which a micro-batch runs them; none: not known
  std::vector<int64_t> live;  // by group, what its layer computes, and what is handed on to it and over it
};
// Arguments and errors otherwise as in LayeredGradients::Create.
absl::StatusOr<LayeredPlan> PlanLayers(const Graph& gradients, const Graph& step,
                                       const std::vector<std::string>& updated, const LayeredOptions& options,
                                       int ranks, const SubgraphBytesOf& bytes_of);

class LayeredGradients : public GradientSums {
 public:
  // `gradients` is StepGraphs::gradients, `step` StepGraphs::step. `update` runs the step where it is cut over the
  // ranks, else null. The communicator, the runner's device and `update` outlive the object. Errors: those of the
  // runner.
  static absl::StatusOr<std::unique_ptr<LayeredGradients>> Create(const Graph& gradients, const Graph& step,
                                                                  const std::vector<std::string>& updated,
                                                                  const LayeredOptions& options, Communicator& ranks,
                                                                  GraphRunner& runner, RankExecutable* update);

  absl::Status ReadWeights(Executable& from) override;
  // With zero 2 and 3 what is cut is this rank's blocks, otherwise tensors that have these.
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches) override;
  int64_t BytesSent(const Executable& from) const override;
  int64_t arena_bytes() const override { return memory_.bytes() + gathered_bytes(); }

  int num_layers() const { return layers_.count; }
  // Memory of this rank for weights that are gathered, and the most that it had of gradients before they were summed.
  int64_t gathered_bytes() const { return gathered_[0].bytes() + gathered_[1].bytes(); }
  int64_t most_gradient_bytes() const { return most_gradient_bytes_; }
  // Bytes that all-gathers of weights send in a micro-batch.
  int64_t gather_bytes_sent() const;

 private:
  struct Weight {
    std::string name;
    bool updated = false;
    int axis = -1;  // of the blocks that ranks have; -1: each has all of it
    Tensor local;
  };
  LayeredGradients(const LayeredOptions& options, Communicator& ranks);
  absl::Status Init(const Graph& gradients, const Graph& step, const std::vector<std::string>& updated,
                    GraphRunner& runner, RankExecutable* update);
  absl::Status PlanTensors();
  absl::Status RunSubgraph(size_t subgraph);
  // Starts to gather the weights that a subgraph reads.
  int64_t StartGather(const std::string& what, size_t subgraph);
  absl::StatusOr<std::vector<Tensor>> SumsOfOwn(const std::string& what, Prefetcher& batches);
  absl::StatusOr<std::vector<Tensor>> SumsInTurns(const std::string& what, Prefetcher& batches);
  // Starts to sum these of the step's inputs over the ranks; they may be moved.
  void StartSum(const std::string& what, const std::vector<size_t>& bucket, std::vector<Tensor>* inputs);

  const LayeredOptions options_;
  Communicator& ranks_;
  const std::vector<LeafRange> leaves_;  // micro-batches by rank, where each adds its own
  std::vector<TensorType> sums_;         // the inputs of the step
  std::vector<int> axes_;                // of their blocks
  Layers layers_;
  std::vector<std::vector<size_t>> buckets_;  // by subgraph, the step's inputs that it completes
  std::vector<std::unique_ptr<Executable>> executables_;
  std::vector<Weight> weights_;  // by state
  RankExecutable* update_ = nullptr;
  size_t first_state_ = 0;  // tensor
  std::vector<Tensor> tensors_;
  SharedMemory memory_, gathered_[2];
  std::vector<std::vector<size_t>> gathers_;         // by subgraph, the weights that are gathered
  std::vector<std::vector<Tensor>> gathered_views_;  // likewise, where to
  int64_t most_gradient_bytes_ = 0;
  WorkerThread comm_thread_;  // ends before what it uses
};

}  // namespace rewright
