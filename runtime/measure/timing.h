// Times an executable: repeated runs with warm-up.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stats.h"
#include "core/device/device.h"

namespace rewright {

struct TimingOptions {
  int warmup = 3;
  int iterations = 20;
  // Ends earlier, but not before `min_iterations`, once this many seconds have been measured.
  double max_seconds = 1e9;
  int min_iterations = 5;
  std::vector<double>* samples = nullptr;  // receives the seconds of each run
  // Asked between runs; true ends the measurement with what there is (at least one run).
  std::function<bool()> stop;
};

// Seconds per run.
absl::StatusOr<Summary> TimeRuns(Executable& executable, const std::vector<Tensor>& inputs,
                                 const TimingOptions& options);

}  // namespace rewright
