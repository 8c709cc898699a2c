#include "runtime/train/micro_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {

MicroBatches::MicroBatches(std::unique_ptr<Executable> executable, const std::vector<std::string>& trained,
                           int64_t count, Communicator& ranks)
    : executable_(std::move(executable)),
      ranks_(ranks),
      trained_(trained),
      leaves_(LeavesOfRanks(count, ranks.size())) {}

absl::Status MicroBatches::ReadWeights(Executable& from) {
  for (const std::string& name : trained_) {
    ASSIGN_OR_RETURN(const Tensor value, from.ReadState(name));
    RETURN_IF_ERROR(executable_->WriteState(name, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> MicroBatches::Sums(const std::string& what, Prefetcher& batches) {
  std::vector<TreeSum> sums;
  for (int64_t i = 0; i < leaves_[static_cast<size_t>(ranks_.rank())].count; ++i) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
    std::vector<Tensor> results;
    RETURN_IF_ERROR(executable_->Run(batch, &results));
    sums.resize(results.size());
    for (size_t k = 0; k < results.size(); ++k) sums[k].Add(std::move(results[k]));
  }
  std::vector<Tensor> totals;
  for (TreeSum& sum : sums) {
    totals.push_back(sum.Take());
    RETURN_IF_ERROR(AllReduce(ranks_, absl::StrCat(what, ", sum of gradients"), leaves_, &totals.back()));
  }
  return totals;
}

}  // namespace rewright
