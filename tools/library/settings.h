// Ranges of the numbers among settings, for the library and for the flags of the program.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/library/rewright/equal.h"
#include "tools/library/rewright/rewright.h"

namespace rewright {

struct SettingRange {
  double least, greatest;
};

inline constexpr SettingRange kAlphaRange = {1, 1e6};
inline constexpr SettingRange kGrowthRange = {0, HUGE_VAL};
inline constexpr SettingRange kToleranceRange = {0, 1};
inline constexpr SettingRange kRelativeRange = {0, 1e9};
inline constexpr SettingRange kAbsoluteRange = {0, 1e300};
inline constexpr SettingRange kSecondsRange = {0, 1e9};          // 0: none, or no limit
inline constexpr SettingRange kProofSecondsRange = {1e-3, 1e9};  // of calls that do nothing but prove
inline constexpr SettingRange kThreadsRange = {0, 4096};
inline constexpr SettingRange kCapacityRange = {0, 1e9};  // of sessions, in rows; 0: a few
inline constexpr int64_t kMostEGraphNodes = 1000000000;

inline constexpr double kMostInteger = static_cast<double>(std::numeric_limits<int64_t>::max());

// Each of these throws an Error of code kInvalidSetting: it names a setting, the number found and the range expected.

[[noreturn]] inline void RefuseSetting(const std::string& name, const std::string& found, const std::string& expected) {
  throw Error(ErrorCode::kInvalidSetting, absl::StrCat(name, ": found ", found, ", expected ", expected));
}

inline void CheckSetting(const char* name, double value, const SettingRange& range) {
  if (value >= range.least && value <= range.greatest) return;
  const bool bounded = std::isfinite(range.greatest) && range.greatest < kMostInteger;
  RefuseSetting(name, absl::StrCat(value),
                bounded ? absl::StrCat("a number from ", range.least, " to ", range.greatest)
                        : absl::StrCat("a number of at least ", range.least));
}

inline void CheckSettings(const ModelOptions& options) {
  CheckSetting("threads", options.threads, kThreadsRange);
  CheckSetting("cached_sizes", options.cached_sizes, {1, std::numeric_limits<int>::max()});
}

inline void CheckSettings(const OptimizeSettings& settings) {
  CheckSetting("alpha", settings.alpha, kAlphaRange);
  CheckSetting("budget", static_cast<double>(settings.budget), {0, kMostInteger});
  CheckSetting("egraph_nodes", static_cast<double>(settings.egraph_nodes), {0, kMostEGraphNodes});
  CheckSetting("growth", settings.growth, kGrowthRange);
  CheckSetting("time_limit_seconds", settings.time_limit_seconds, kSecondsRange);
  CheckSetting("memory_limit_bytes", static_cast<double>(settings.memory_limit_bytes), {0, kMostInteger});
  CheckSetting("tolerance", settings.tolerance, kToleranceRange);
  CheckSetting("rtol", settings.rtol, kRelativeRange);
  if (!(settings.atol < 0)) CheckSetting("atol", settings.atol, kAbsoluteRange);
  CheckSetting("proof_limit_seconds", settings.proof_limit_seconds, kSecondsRange);
  for (const auto& [input, range] : settings.ranges) {
    if (range.first <= range.second) continue;
    RefuseSetting(absl::StrCat("ranges of ", input), absl::StrCat("(", range.first, ", ", range.second, ")"),
                  "the least number and the greatest");
  }
}

inline void CheckSettings(const EqualSettings& settings) {
  CheckSetting("time_limit_seconds", settings.time_limit_seconds, kProofSecondsRange);
  CheckSetting("threads", settings.threads, kThreadsRange);
}

}  // namespace rewright
