// Measurements of whole graphs, kept in the profile database beside the costs of their parts.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/measure/interleaved.h"
#include "runtime/measure/profile_db.h"

namespace rewright {

// They hold for the device of that name, which tells processor, versions of kernels and threads: another name finds
// none. Not thread-safe.
class ProfiledMeasurements : public MeasurementCache {
 public:
  ProfiledMeasurements(std::shared_ptr<ProfileDb> profile, std::string device)
      : profile_(std::move(profile)), device_(std::move(device)) {}

  absl::StatusOr<std::optional<Measurement>> Find(const Graph& original, const Graph& candidate) override;
  absl::StatusOr<double> LimitThatEnded(const Graph& original, const std::string& setting) override;
  void KeepLimit(const Graph& original, const std::string& setting, double seconds) override;
  void MeasureNew(bool measure) override { profile_->set_grows(measure); }
  void Keep(const Graph& original, const Graph& candidate, const Measurement& measured) override;

 private:
  const std::shared_ptr<ProfileDb> profile_;
  const std::string device_;
};

}  // namespace rewright
