// Costs of groups that are measured once: found in memory, else in the profile database, else measured and kept in
// both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/profile_db.h"

namespace rewright {

// Not thread-safe.
class MeasuredCosts {
 public:
  // `device` is the key of the database. `profile` null: costs are kept in memory alone.
  MeasuredCosts(std::string device, std::shared_ptr<ProfileDb> profile)
      : device_(std::move(device)), profile_(std::move(profile)) {}

  // Seconds, the fastest of the measured runs. Errors are those of reading the database and of `measure`; what cannot
  // be written there is lost (ProfileDb::lost). Where the profile does not grow, what it has not got is a NotFound
  // error, unless it is `needed` for more than an estimate.
  absl::StatusOr<double> Of(const std::string& signature, const std::function<absl::StatusOr<ProfileEntry>()>& measure,
                            bool needed = false);
  // What is known without a measurement.
  absl::StatusOr<std::optional<double>> Find(const std::string& signature);

 private:
  const std::string device_;
  const std::shared_ptr<ProfileDb> profile_;
  absl::flat_hash_map<std::string, double> known_;
};

}  // namespace rewright
