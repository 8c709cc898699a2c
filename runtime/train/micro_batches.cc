#include "runtime/train/micro_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "runtime/comm/collectives.h"
#include "runtime/parallel/run_collective.h"

namespace rewright {

MicroBatches::MicroBatches(std::unique_ptr<Executable> executable, const std::vector<std::string>& updated,
                           std::vector<TensorType> sums, int64_t count, Communicator& ranks)
    : executable_(std::move(executable)),
      ranks_(ranks),
      updated_(updated),
      sums_(std::move(sums)),
      leaves_(LeavesOfRanks(count, ranks.size())) {}

absl::Status CopyStates(Executable& from, const std::vector<std::string>& names, Executable& to) {
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Tensor value, from.ViewState(name));
    RETURN_IF_ERROR(to.WriteState(name, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> MicroBatches::Sums(const std::string& what, Prefetcher& batches) {
  std::vector<TreeSum> sums;
  for (int64_t i = 0; i < leaves_[ranks_.rank()].count; ++i) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
    std::vector<Tensor> results;
    RETURN_IF_ERROR(executable_->Run(batch, &results));
    sums.resize(results.size());
    for (size_t k = 0; k < results.size(); ++k) sums[k].Add(std::move(results[k]));
  }
  const std::string of = absl::StrCat(what, ", sum of gradients");
  std::vector<Tensor> totals;
  for (TreeSum& sum : sums) totals.push_back(sum.Take());
  for (Tensor& total : totals) RETURN_IF_ERROR(AllReduce(ranks_, of, leaves_, &total));
  return ViewsOf(totals, sums_);
}

int64_t MicroBatches::BytesSent(const Executable& from) const {
  int64_t bytes = leaves_[ranks_.rank()].count * BytesSentBy(*executable_);
  for (const std::string& name : updated_) bytes += BytesSentToRead(from, name);
  return bytes + BytesOfSumOverRanks(sums_, std::vector<int>(sums_.size(), -1), ranks_.rank(), ranks_.size());
}

absl::StatusOr<std::vector<Tensor>> SumOverRanks(Communicator& ranks, const std::string& what,
                                                 const std::vector<LeafRange>& leaves, std::vector<Tensor> sums,
                                                 const std::vector<int>& axes) {
  for (size_t k = 0; k < sums.size(); ++k) {
    if (axes[k] < 0) {
      RETURN_IF_ERROR(AllReduce(ranks, what, leaves, &sums[k]));
      continue;
    }
    RETURN_IF_ERROR(ReduceOwnBlocks(ranks, what, leaves, {{&sums[k], axes[k]}}));
    Tensor block(BlockType(sums[k].type(), axes[k], ranks.size()));
    CopyBlock(sums[k], axes[k], ranks.rank(), &block);
    sums[k] = std::move(block);
  }
  return sums;
}

absl::StatusOr<std::vector<Tensor>> JoinStretches(Communicator& ranks, const std::string& what,
                                                  const std::vector<TensorType>& types, const std::vector<int>& axes,
                                                  std::vector<Tensor> sums) {
  std::vector<Joined> whole;
  for (size_t k = 0; k < sums.size(); ++k) {
    if (axes[k] >= 0) continue;
    whole.push_back({sums[k], -1, Tensor(types[k])});
    sums[k] = whole.back().whole;
  }
  RETURN_IF_ERROR(AllGather(ranks, what, whole));
  return sums;
}

int64_t BytesOfSumOverRanks(const std::vector<TensorType>& types, const std::vector<int>& axes, int rank, int size) {
  int64_t bytes = 0;
  for (size_t k = 0; k < types.size(); ++k) {
    bytes += axes[k] < 0 ? BytesOfAllReduce(types[k], rank, size) : types[k].num_bytes() / size * (size - 1);
  }
  return bytes;
}

int64_t BytesOfTurns(const std::vector<TensorType>& types, const std::vector<int>& axes, int rank, int size,
                     int64_t leaves) {
  int64_t bytes = 0;
  for (size_t k = 0; k < types.size(); ++k) {
    const int64_t own = PartOfRank(types[k], axes[k], rank, size).num_bytes();
    bytes += leaves * (types[k].num_bytes() - own) + (axes[k] < 0 ? own * (size - 1) : 0);
  }
  return bytes;
}

std::vector<Tensor> ViewsOf(const std::vector<Tensor>& vectors, const std::vector<TensorType>& types) {
  std::vector<Tensor> parts;
  size_t next = 0;
  for (const Tensor& vector : vectors) {
    const auto owner = std::make_shared<Tensor>(vector);
    // To the end of the vector, and past tensors of no elements.
    for (int64_t at = 0; next < types.size() && types[next].dtype == vector.dtype() &&
                         at + types[next].num_elements() <= vector.num_elements();) {
      const TensorType& type = types[next++];
      parts.emplace_back(type, owner, owner->as<char>() + at * static_cast<int64_t>(DTypeSize(type.dtype)));
      at += type.num_elements();
    }
  }
  CHECK(parts.size() == types.size()) << parts.size();
  return parts;
}

}  // namespace rewright
