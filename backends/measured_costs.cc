#include "backends/measured_costs.h"

#include "core/base/status_macros.h"

namespace rewright {

absl::StatusOr<double> MeasuredCosts::Of(const std::string& signature,
                                         const std::function<absl::StatusOr<ProfileEntry>()>& measure) {
  if (const auto found = known_.find(signature); found != known_.end()) return found->second;
  absl::StatusOr<std::optional<ProfileEntry>> stored = profile_->Find(device_, signature);
  if (!stored.ok()) return stored.status();
  if (!stored->has_value()) {
    absl::StatusOr<ProfileEntry> measured = measure();
    if (!measured.ok()) return measured.status();
    RETURN_IF_ERROR(profile_->Put(device_, signature, *measured));
    *stored = *measured;
  }
  return known_[signature] = (*stored)->fastest;
}

}  // namespace rewright
