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
  MicroBatches(std::unique_ptr<Executable> executable, const std::vector<std::string>& trained, int64_t count,
               Communicator& ranks);

  // Takes the weights over from who updates them.
  absl::Status ReadWeights(Executable& from);
  // The sums of the graph's results over all micro-batches of a step, in the order of AllReduce: the same bits whatever
  // the ranks. `batches` gives this rank's micro-batches. `what` names the step in errors: those of the executable, of
  // the data and of AllReduce.
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches);

 private:
  const std::unique_ptr<Executable> executable_;
  Communicator& ranks_;
  const std::vector<std::string> trained_;
  const std::vector<LeafRange> leaves_;  // micro-batches by rank
};

}  // namespace rewright
