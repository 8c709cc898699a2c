#include "runtime/train/group_gradients.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "runtime/comm/collectives.h"

namespace rewright {

GroupGradients::GroupGradients(std::unique_ptr<Executable> executable, const std::vector<std::string>& updated,
                               std::vector<TensorType> sums, std::vector<int> axes, int zero, int64_t count,
                               Communicator& group, Communicator& partners)
    : executable_(std::move(executable)),
      updated_(updated),
      sums_(std::move(sums)),
      axes_(std::move(axes)),
      zero_(zero),
      count_(count),
      group_(group),
      partners_(partners) {}

int64_t GroupGradients::BytesSent(const Executable& from) const {
  const int rank = partners_.rank(), size = partners_.size();
  const bool in_turns = zero_ >= 2;
  const int64_t own = in_turns ? (count_ - rank + size - 1) / size : LeavesOfRanks(count_, size)[rank].count;
  int64_t bytes = own * BytesSentBy(*executable_);
  for (const std::string& name : updated_) bytes += BytesSentToRead(from, name);
  std::vector<TensorType> types;
  for (size_t k = 0; k < sums_.size(); ++k) types.push_back(LeafType(k));
  return bytes +
         (in_turns ? BytesOfTurns(types, axes_, rank, size, own) : BytesOfSumOverRanks(types, axes_, rank, size));
}

TensorType GroupGradients::LeafType(size_t sum) const {
  return axes_[sum] < 0 ? sums_[sum] : BlockType(sums_[sum], axes_[sum], group_.size());
}

absl::StatusOr<std::vector<Tensor>> GroupGradients::Leaf(Prefetcher& batches) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
  std::vector<Tensor> results, leaf;
  RETURN_IF_ERROR(executable_->Run(batch, &results));
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

absl::StatusOr<std::vector<Tensor>> GroupGradients::Sums(const std::string& what, Prefetcher& batches) {
  const std::string of = absl::StrCat(what, ", sum of gradients");
  return zero_ >= 2 ? SumsInTurns(of, batches) : SumsOfOwn(of, batches);
}

absl::StatusOr<std::vector<Tensor>> GroupGradients::SumsOfOwn(const std::string& what, Prefetcher& batches) {
  const std::vector<LeafRange> leaves = LeavesOfRanks(count_, partners_.size());
  std::vector<TreeSum> sums(sums_.size());
  for (int64_t i = 0; i < leaves[partners_.rank()].count; ++i) {
    ASSIGN_OR_RETURN(std::vector<Tensor> leaf, Leaf(batches));
    for (size_t k = 0; k < sums.size(); ++k) sums[k].Add(std::move(leaf[k]));
  }
  std::vector<Tensor> totals;
  for (TreeSum& sum : sums) totals.push_back(sum.Take());
  return SumOverRanks(partners_, what, leaves, std::move(totals), axes_);
}

absl::StatusOr<std::vector<Tensor>> GroupGradients::SumsInTurns(const std::string& what, Prefetcher& batches) {
  std::vector<TreeSum> sums(sums_.size());
  std::vector<LeafSum> tensors;
  for (size_t k = 0; k < sums.size(); ++k) tensors.push_back({LeafType(k), axes_[k], &sums[k]});
  for (int64_t first = 0; first < count_; first += partners_.size()) {
    const int givers = static_cast<int>(std::min<int64_t>(partners_.size(), count_ - first));
    std::vector<Tensor> leaf;
    if (partners_.rank() < givers) {
      ASSIGN_OR_RETURN(leaf, Leaf(batches));
    }
    RETURN_IF_ERROR(AddLeaves(partners_, what, givers, tensors, leaf));
  }
  std::vector<Tensor> inputs;
  for (TreeSum& sum : sums) inputs.push_back(sum.Take());
  return JoinStretches(partners_, what, sums_, axes_, std::move(inputs));
}

}  // namespace rewright
