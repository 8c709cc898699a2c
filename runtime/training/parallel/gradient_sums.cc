#include "runtime/training/parallel/gradient_sums.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "runtime/comm/collectives.h"
#include "runtime/parallel/run_collective.h"

namespace rewright {

std::vector<int64_t> MicroBatchesOf(int zero, int64_t count, const Communicator& ranks) {
  std::vector<int64_t> own;
  if (zero >= 2) {
    for (int64_t i = ranks.rank(); i < count; i += ranks.size()) own.push_back(i);
  } else {
    const LeafRange range = LeavesOfRanks(count, ranks.size())[ranks.rank()];
    for (int64_t i = 0; i < range.count; ++i) own.push_back(range.first + i);
  }
  return own;
}

MicroBatchGradients::MicroBatchGradients(std::unique_ptr<Executable> executable,
                                         const std::vector<std::string>& updated, std::vector<TensorType> sums,
                                         int64_t count, Communicator& ranks)
    : executable_(std::move(executable)),
      ranks_(ranks),
      updated_(updated),
      sums_(std::move(sums)),
      leaves_(LeavesOfRanks(count, ranks.size())) {}

absl::Status MicroBatchGradients::ReadWeights(Executable& from) {
  for (const std::string& name : updated_) {
    ASSIGN_OR_RETURN(const Tensor value, from.ViewState(name));
    RETURN_IF_ERROR(executable_->WriteState(name, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> MicroBatchGradients::Leaf(Prefetcher& batches) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
  std::vector<Tensor> results;
  RETURN_IF_ERROR(executable_->Run(batch, &results));
  return results;
}

absl::StatusOr<std::vector<Tensor>> MicroBatchGradients::SumsOfOwn(Prefetcher& batches) {
  std::vector<TreeSum> sums;
  for (int64_t i = 0; i < leaves_[ranks_.rank()].count; ++i) {
    ASSIGN_OR_RETURN(std::vector<Tensor> leaf, Leaf(batches));
    sums.resize(leaf.size());
    for (size_t k = 0; k < leaf.size(); ++k) sums[k].Add(std::move(leaf[k]));
  }
  std::vector<Tensor> totals;
  for (TreeSum& sum : sums) totals.push_back(sum.Take());
  return totals;
}

absl::StatusOr<std::vector<Tensor>> MicroBatchGradients::Sums(const std::string& what, Prefetcher& batches) {
  ASSIGN_OR_RETURN(std::vector<Tensor> totals, SumsOfOwn(batches));
  const std::string of = absl::StrCat(what, ", sum of gradients");
  for (Tensor& total : totals) RETURN_IF_ERROR(AllReduce(ranks_, of, leaves_, &total));
  return ViewsOf(totals, sums_);
}

int64_t MicroBatchGradients::BytesOfPasses(int64_t micro_batches, const Executable& from) const {
  int64_t bytes = micro_batches * BytesSentBy(*executable_);
  for (const std::string& name : updated_) bytes += BytesSentToRead(from, name);
  return bytes;
}

int64_t MicroBatchGradients::BytesSent(const Executable& from) const {
  return BytesOfPasses(leaves_[ranks_.rank()].count, from) +
         BytesOfSumOverRanks(sums_, std::vector<int>(sums_.size(), -1), ranks_.rank(), ranks_.size());
}

ModelParallelGradients::ModelParallelGradients(std::unique_ptr<Executable> executable,
                                               const std::vector<std::string>& updated, std::vector<TensorType> sums,
                                               std::vector<int> axes, int zero, int64_t count, Communicator& group,
                                               Communicator& replicas)
    : MicroBatchGradients(std::move(executable), updated, std::move(sums), count, replicas),
      axes_(std::move(axes)),
      zero_(zero),
      count_(count),
      group_(group) {}

TensorType ModelParallelGradients::LeafType(size_t sum) const {
  return axes_[sum] < 0 ? sums_[sum] : BlockType(sums_[sum], axes_[sum], group_.size());
}

absl::StatusOr<std::vector<Tensor>> ModelParallelGradients::Leaf(Prefetcher& batches) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, MicroBatchGradients::Leaf(batches));
  std::vector<Tensor> leaf;
  const std::vector<Tensor> views = ViewsOf(results, sums_);
  for (size_t k = 0; k < sums_.size(); ++k) {
    leaf.emplace_back(LeafType(k));
    if (axes_[k] >= 0) {
      CopyBlock(views[k], axes_[k], group_.rank(), &leaf.back());
    } else {
      CopyElements(views[k], &leaf.back());
    }
  }
  return leaf;
}

absl::StatusOr<std::vector<Tensor>> ModelParallelGradients::Sums(const std::string& what, Prefetcher& batches) {
  const std::string of = absl::StrCat(what, ", sum of gradients");
  if (zero_ >= 2) return SumsInTurns(of, batches);
  ASSIGN_OR_RETURN(std::vector<Tensor> totals, SumsOfOwn(batches));
  return SumOverRanks(ranks_, of, leaves_, std::move(totals), axes_);
}

absl::StatusOr<std::vector<Tensor>> ModelParallelGradients::SumsInTurns(const std::string& what, Prefetcher& batches) {
  std::vector<TreeSum> sums(sums_.size());
  std::vector<LeafSum> tensors;
  for (size_t k = 0; k < sums.size(); ++k) tensors.push_back({LeafType(k), axes_[k], &sums[k]});
  for (int64_t first = 0; first < count_; first += ranks_.size()) {
    const int givers = static_cast<int>(std::min<int64_t>(ranks_.size(), count_ - first));
    std::vector<Tensor> leaf;
    if (ranks_.rank() < givers) {
      ASSIGN_OR_RETURN(leaf, Leaf(batches));
    }
    RETURN_IF_ERROR(ReduceScatterLeaves(ranks_, what, givers, tensors, leaf));
  }
  std::vector<Tensor> inputs;
  for (TreeSum& sum : sums) inputs.push_back(sum.Take());
  return GatherShards(ranks_, what, sums_, axes_, std::move(inputs));
}

int64_t ModelParallelGradients::BytesSent(const Executable& from) const {
  const int rank = ranks_.rank(), size = ranks_.size();
  const auto own = static_cast<int64_t>(MicroBatchesOf(zero_, count_, ranks_).size());
  std::vector<TensorType> types;
  for (size_t k = 0; k < sums_.size(); ++k) types.push_back(LeafType(k));
  return BytesOfPasses(own, from) +
         (zero_ >= 2 ? BytesOfTurns(types, axes_, rank, size, own) : BytesOfSumOverRanks(types, axes_, rank, size));
}

absl::StatusOr<std::vector<Tensor>> SumOverRanks(Communicator& ranks, const std::string& what,
                                                 const std::vector<LeafRange>& leaves, std::vector<Tensor> sums,
                                                 const std::vector<int>& axes) {
  for (size_t k = 0; k < sums.size(); ++k) {
    if (axes[k] < 0) {
      RETURN_IF_ERROR(AllReduce(ranks, what, leaves, &sums[k]));
      continue;
    }
    RETURN_IF_ERROR(ReduceScatterInPlace(ranks, what, leaves, {{&sums[k], axes[k]}}));
    Tensor block(BlockType(sums[k].type(), axes[k], ranks.size()));
    CopyBlock(sums[k], axes[k], ranks.rank(), &block);
    sums[k] = std::move(block);
  }
  return sums;
}

absl::StatusOr<std::vector<Tensor>> GatherShards(Communicator& ranks, const std::string& what,
                                                 const std::vector<TensorType>& types, const std::vector<int>& axes,
                                                 std::vector<Tensor> sums) {
  std::vector<GatheredTensor> whole;
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
    const int64_t own = ShardType(types[k], axes[k], rank, size).num_bytes();
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
