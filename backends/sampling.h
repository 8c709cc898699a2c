// Samples of a time, on a machine that others use as well.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>

#include "absl/status/statusor.h"
#include "backends/cpu/disturbance.h"
#include "backends/profile_db.h"

namespace rewright {

struct SampleLimits {
  size_t least = 5;
  size_t most = 60;
  double enough = std::numeric_limits<double>::infinity();  // seconds; who takes longer need not be known well
  bool patient = true;  // a sample counts that was taken between two signs of a quiet machine, unless it never is
};

// Takes samples until the three fastest agree or take more than enough, or the limits or a tenth of a second are
// reached. `sample` gives the seconds of one of `repetitions` runs. Errors: those of `sample`.
absl::StatusOr<ProfileEntry> TakeSamples(const std::function<absl::StatusOr<double>()>& sample, int repetitions,
                                         const SampleLimits& limits, cpu::DisturbanceProbe& probe);

}  // namespace rewright
