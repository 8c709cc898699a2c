#include "runtime/measure/measurement_cache.h"

#include "core/base/stats.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"

namespace rewright {
namespace {

std::string KeyOf(const Graph& graph) { return TextHash::Hex(graph.CanonicalHash()); }

}  // namespace

absl::StatusOr<std::optional<Measurement>> ProfiledMeasurements::Find(const Graph& original, const Graph& candidate) {
  ASSIGN_OR_RETURN(const std::optional<ProfileComparison> found,
                   profile_->FindComparison(device_, KeyOf(original), KeyOf(candidate)));
  if (!found) return std::optional<Measurement>();
  Measurement measured;
  measured.original_seconds = found->first;
  measured.candidate_seconds = found->second;
  measured.ratio = found->ratio;
  measured.ratio_at_most = found->ratio_at_most;
  measured.wins = static_cast<int>(found->wins);
  measured.losses = static_cast<int>(found->losses);
  measured.p_value = SignTest(measured.wins, measured.losses);
  return measured;
}

absl::StatusOr<double> ProfiledMeasurements::LimitThatEnded(const Graph& original, const std::string& setting) {
  return profile_->FindLimit(device_, KeyOf(original), setting);
}

void ProfiledMeasurements::KeepLimit(const Graph& original, const std::string& setting, double seconds) {
  profile_->Tolerate(profile_->PutLimit(device_, KeyOf(original), setting, seconds));
}

void ProfiledMeasurements::Keep(const Graph& original, const Graph& candidate, const Measurement& measured) {
  const ProfileComparison comparison{measured.original_seconds,
                                     measured.candidate_seconds,
                                     measured.ratio,
                                     measured.ratio_at_most,
                                     measured.wins,
                                     measured.losses};
  profile_->Tolerate(profile_->PutComparison(device_, KeyOf(original), KeyOf(candidate), comparison));
}

}  // namespace rewright
