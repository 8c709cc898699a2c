#include "backends/measured_costs.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {

absl::StatusOr<std::optional<double>> MeasuredCosts::Find(const std::string& signature) {
  if (const auto found = known_.find(signature); found != known_.end()) return found->second;
  if (profile_ == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<ProfileEntry> stored, profile_->Find(device_, signature));
  if (!stored) return std::nullopt;
  return known_[signature] = stored->fastest;
}

absl::StatusOr<double> MeasuredCosts::Of(const std::string& signature,
                                         const std::function<absl::StatusOr<ProfileEntry>()>& measure, bool needed) {
  ASSIGN_OR_RETURN(const std::optional<double> found, Find(signature));
  if (found) return *found;
  if (profile_ != nullptr && !profile_->grows() && !needed) {
    return absl::NotFoundError(absl::StrCat("profile database ", profile_->path(), ": it was not measured before"));
  }
  ASSIGN_OR_RETURN(const ProfileEntry measured, measure());
  if (profile_ != nullptr) profile_->Tolerate(profile_->Put(device_, signature, measured));
  return known_[signature] = measured.fastest;
}

}  // namespace rewright
