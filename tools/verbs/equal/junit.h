// The answer of `rewright equal` as a JUnit report, which servers of continuous integration read.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "verifier/equal/equal.h"

namespace rewright {

// A suite of one case, named after both models: it passes where they are proved equal, fails with the answer and its
// details otherwise, and is an error where there is no result. `dims`, of which the answer tells, are properties. Text
// that XML has no characters for is left out.
std::string JUnitReport(const std::string& a, const std::string& b, const absl::StatusOr<EqualResult>& result,
                        const std::map<std::string, int64_t>& dims, double seconds);

}  // namespace rewright
