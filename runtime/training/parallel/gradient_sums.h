// The gradients of a step that is cut into micro-batches, over all ranks. The order of additions is that of the tree
// over micro-batches (runtime/comm/all_reduce.h), on whichever ranks they happen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/all_reduce.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/prefetch.h"

namespace rewright {

// Computes the sums of gradients with which a step updates the weights.
class GradientSums {
 public:
  virtual ~GradientSums() = default;
  // Takes the weights over from who updates them. Called by all ranks before each step.
  virtual absl::Status ReadWeights(Executable& from) = 0;
  // The inputs of a step: sums over all its micro-batches, in the order of AllReduce: the same bits whatever the ranks.
  // Parts of an input that a rank does not need have no meaning. `batches` gives this rank's micro-batches. `what`
  // names the step in errors: those of the executables, of the data and of ranks.
  virtual absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches) = 0;
  // Bytes that this rank sends for both; `from` as in ReadWeights.
  virtual int64_t BytesSent(const Executable& from) const = 0;
  // Memory of this rank's passes, beside the sums and the weights that it keeps, as far as it was needed until now.
  virtual int64_t arena_bytes() const = 0;
};

// The micro-batches of a step that are this rank's, of `count`: with zero 2 and 3 the ranks take them in turns.
std::vector<int64_t> MicroBatchesOf(int zero, int64_t count, const Communicator& ranks);

// By one graph for a micro-batch, whose results are added when all are there.
class MicroBatchGradients : public GradientSums {
 public:
  // `executable` computes StepGraphs::gradients by the states `updated`. REQUIRES: a micro-batch for each rank.
  // `sums` are the inputs of the step, in the order in which the results have them one after another.
  MicroBatchGradients(std::unique_ptr<Executable> executable, const std::vector<std::string>& updated,
                      std::vector<TensorType> sums, int64_t count, Communicator& ranks);

  absl::Status ReadWeights(Executable& from) override;
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches) override;
  int64_t BytesSent(const Executable& from) const override;
  int64_t arena_bytes() const override { return executable_->arena_bytes(); }

 protected:
  // The gradients of a micro-batch.
  virtual absl::StatusOr<std::vector<Tensor>> Leaf(Prefetcher& batches);
  // Sums of the leaves of this rank's micro-batches.
  absl::StatusOr<std::vector<Tensor>> SumsOfOwn(Prefetcher& batches);
  // Bytes sent for this many micro-batches, and for the weights.
  int64_t BytesOfPasses(int64_t micro_batches, const Executable& from) const;

  const std::unique_ptr<Executable> executable_;
  Communicator& ranks_;
  const std::vector<std::string> updated_;
  const std::vector<TensorType> sums_;
  const std::vector<LeafRange> leaves_;  // micro-batches by rank
};

// Where a group of ranks computes a micro-batch together and the optimizer state is cut over all ranks (ZeRO), so
// that every rank gets its blocks of the sums alone.
//
//   zero 1     A group adds the gradients of its micro-batches itself; behind the last one they are summed over groups.
//   zero 2, 3  The groups take the micro-batches in turns, and behind each turn every rank gets its blocks of all
//              groups' gradients: sums of whole gradients are kept nowhere.
class ModelParallelGradients : public MicroBatchGradients {
 public:
  // `executable` is run by `group`; `replicas` have the same part in other groups. A rank needs the block of each sum
  // along its axis of `axes`, or all (-1): block `group.rank() * replicas.size() + replicas.rank()`.
  ModelParallelGradients(std::unique_ptr<Executable> executable, const std::vector<std::string>& updated,
                         std::vector<TensorType> sums, std::vector<int> axes, int zero, int64_t count,
                         Communicator& group, Communicator& replicas);

  // The sums; cut sums are the rank's blocks.
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches) override;
  int64_t BytesSent(const Executable& from) const override;

 private:
  // The gradients of a micro-batch; cut gradients are the blocks of this rank and its replicas, in one tensor.
  absl::StatusOr<std::vector<Tensor>> Leaf(Prefetcher& batches) override;
  TensorType LeafType(size_t sum) const;
  absl::StatusOr<std::vector<Tensor>> SumsInTurns(const std::string& what, Prefetcher& batches);

  const std::vector<int> axes_;
  const int zero_;
  const int64_t count_;
  Communicator& group_;
};

// Adds the sums of the ranks' own micro-batches; `leaves` are the micro-batches by rank. A sum with an axis comes back
// as this rank's block along it, others come back whole.
absl::StatusOr<std::vector<Tensor>> SumOverRanks(Communicator& ranks, const std::string& what,
                                                 const std::vector<LeafRange>& leaves, std::vector<Tensor> sums,
                                                 const std::vector<int>& axes);

// Completes sums that ReduceScatterLeaves made: a sum with an axis stays this rank's block; of every other sum the flat
// shards of all ranks are gathered.
absl::StatusOr<std::vector<Tensor>> GatherShards(Communicator& ranks, const std::string& what,
                                                 const std::vector<TensorType>& types, const std::vector<int>& axes,
                                                 std::vector<Tensor> sums);

// Bytes that rank `rank` of `size` sends for SumOverRanks; and for `leaves` calls of ReduceScatterLeaves to which it
// gives a leaf, with GatherShards.
int64_t BytesOfSumOverRanks(const std::vector<TensorType>& types, const std::vector<int>& axes, int rank, int size);
int64_t BytesOfTurns(const std::vector<TensorType>& types, const std::vector<int>& axes, int rank, int size,
                     int64_t leaves);

// Tensors of these types that lie one after another in vectors of their element types: views of them.
std::vector<Tensor> ViewsOf(const std::vector<Tensor>& vectors, const std::vector<TensorType>& types);

}  // namespace rewright
