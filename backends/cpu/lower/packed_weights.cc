#include "backends/cpu/lower/packed_weights.h"

#include <utility>

#include "core/base/status_macros.h"

namespace rewright::cpu {

absl::StatusOr<std::shared_ptr<void>> PackedWeights::Get(
    const Form& form, std::shared_ptr<void> weights,
    const std::function<absl::StatusOr<std::shared_ptr<void>>()>& make) {
  std::shared_ptr<const Packed> packed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = forms_.find(form); found != forms_.end()) packed = found->second.lock();
  }
  if (packed == nullptr) {
    ASSIGN_OR_RETURN(std::shared_ptr<void> memory, make());
    packed = std::make_shared<const Packed>(Packed{std::move(weights), std::move(memory)});
    const std::lock_guard<std::mutex> lock(mutex_);
    if (forms_.size() >= look_at_) {
      std::erase_if(forms_, [](const auto& entry) { return entry.second.expired(); });
      look_at_ = 2 * forms_.size() + 64;
    }
    forms_[form] = packed;
  }
  return std::shared_ptr<void>(packed, packed->memory.get());
}

}  // namespace rewright::cpu
