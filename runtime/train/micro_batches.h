// The gradients of a step that is cut into micro-batches, over all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ir/device.h"
#include "runtime/comm/all_reduce.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/prefetch.h"

namespace rewright {

class MicroBatches {
 public:
  // `executable` computes StepGraphs::gradients by the weights `trained`. REQUIRES: a micro-batch for each rank.
  // `sums` are the inputs of the step, in the order in which the results have them one after another. Where
  // `block_axes` are given, one for each, a rank needs of an input its block along that axis alone; -1: all of it.
  MicroBatches(std::unique_ptr<Executable> executable, const std::vector<std::string>& trained,
               std::vector<TensorType> sums, std::vector<int> block_axes, int64_t count, Communicator& ranks);

  // Takes the weights over from who updates them.
  absl::Status ReadWeights(Executable& from);
  // The inputs of a step: sums over all its micro-batches, in the order of AllReduce: the same bits whatever the ranks.
  // What a rank does not need of an input has no meaning. `batches` gives this rank's micro-batches. `what` names the
  // step in errors: those of the executable, of the data and of AllReduce.
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches);

 private:
  // Views of the vectors that the graph gives.
  std::vector<Tensor> Split(std::vector<Tensor> vectors) const;

  const std::unique_ptr<Executable> executable_;
  Communicator& ranks_;
  const std::vector<std::string> trained_;
  const std::vector<TensorType> sums_;
  const std::vector<int> block_axes_;
  const std::vector<LeafRange> leaves_;  // micro-batches by rank
};

}  // namespace rewright
