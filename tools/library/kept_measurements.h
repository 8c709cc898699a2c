// Measurements of whole graphs, kept in the profile database beside the costs of their parts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/profile_db.h"
#include "search/measure.h"

namespace rewright {

// They hold for the device of that name, which tells processor, versions of kernels and threads: another name finds
// none. Not thread-safe.
class ProfiledMeasurements : public KeptMeasurements {
 public:
  // Errors: a profile database that cannot be used.
  static absl::StatusOr<std::unique_ptr<ProfiledMeasurements>> Open(const std::string& profile,
                                                                    const std::string& device);

  absl::StatusOr<std::optional<Measurement>> Find(const Graph& original, const Graph& candidate) override;
  absl::Status Keep(const Graph& original, const Graph& candidate, const Measurement& measured) override;

 private:
  ProfiledMeasurements(std::unique_ptr<ProfileDb> profile, std::string device)
      : profile_(std::move(profile)), device_(std::move(device)) {}

  const std::unique_ptr<ProfileDb> profile_;
  const std::string device_;
};

}  // namespace rewright
