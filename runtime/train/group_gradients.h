// The gradients of a step whose micro-batches are each computed by a group of ranks together, where what the optimizer
// keeps is cut over all ranks (ZeRO): every rank gets its blocks of the sums alone.
//
//   zero 1     A group adds the gradients of its micro-batches itself; behind the last one they are summed over groups.
//   zero 2, 3  The groups take the micro-batches in turns, and behind each turn every rank gets its blocks of all
//              groups' gradients: sums of whole gradients are kept nowhere.
//
// The order of additions is that of the tree over micro-batches (runtime/comm/all_reduce.h), whoever makes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/parallel/rank_executable.h"
#include "runtime/train/micro_batches.h"

namespace rewright {

class GroupGradients : public GradientSums {
 public:
  // `executable` computes StepGraphs::gradients by the states `updated`, run by `group`; `partners` have the same part
  // in other groups. `sums` are the inputs of the step, of which a rank needs the block along `axes`, or all (-1):
  // block `group.rank() * partners.size() + partners.rank()`. REQUIRES: a micro-batch for each group.
  GroupGradients(std::unique_ptr<Executable> executable, const std::vector<std::string>& updated,
                 std::vector<TensorType> sums, std::vector<int> axes, int zero, int64_t count, Communicator& group,
                 Communicator& partners);

  absl::Status ReadWeights(Executable& from) override { return CopyStates(from, updated_, *executable_); }
  // Of what is cut the rank's blocks.
  absl::StatusOr<std::vector<Tensor>> Sums(const std::string& what, Prefetcher& batches) override;
  int64_t BytesSent(const Executable& from) const override;
  int64_t arena_bytes() const override { return executable_->arena_bytes(); }

 private:
  // The gradients of a micro-batch: of what is cut the blocks of this rank and its partners, in one tensor.
  absl::StatusOr<std::vector<Tensor>> Leaf(Prefetcher& batches);
  TensorType LeafType(size_t sum) const;
  absl::StatusOr<std::vector<Tensor>> SumsOfOwn(const std::string& what, Prefetcher& batches);
  absl::StatusOr<std::vector<Tensor>> SumsInTurns(const std::string& what, Prefetcher& batches);

  const std::unique_ptr<Executable> executable_;
  const std::vector<std::string> updated_;
  const std::vector<TensorType> sums_;
  const std::vector<int> axes_;
  const int zero_;
  const int64_t count_;
  Communicator& group_;
  Communicator& partners_;
};

}  // namespace rewright
