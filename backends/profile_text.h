// A profile database as text, to carry measured costs from the machine that has the device to one that has not.
//
//   {"format": "rewright-profile", "version": 1, "entries": [
//     {"device": "..", "signature": "..", "fastest": 1e-5, "median": 1.1e-5, "spread": 2e-7, "count": 30}, ...]}
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/profile_db.h"

namespace rewright {

std::string PrintProfile(const std::vector<ProfileRecord>& records);

// The text is untrusted. Errors are `file: entry N: member: found .., expected ..`; a key that stands twice is one.
absl::StatusOr<std::vector<ProfileRecord>> ParseProfile(const std::string& text, const std::string& file);

}  // namespace rewright
