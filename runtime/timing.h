// Times executables: repeated runs with warm-up, and two executables against each other.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device.h"
#include "core/stats.h"

namespace rewright {

struct TimingOptions {
  int warmup = 3;
  int iterations = 20;
  // Ends earlier, but not before `min_iterations`, once so many seconds have been measured.
  double max_seconds = 1e9;
  int min_iterations = 5;
  // Asked between runs; true ends the measurement with what there is (at least one run).
  std::function<bool()> stop;
};

// Seconds per run.
absl::StatusOr<Summary> TimeRuns(Executable& executable, const std::vector<Tensor>& inputs,
                                 const TimingOptions& options);

// `candidate` against `baseline`, run in turn within every pair and with the order of each pair exchanged, so that a
// drifting clock or a noisy neighbour meets both alike.
struct Comparison {
  Summary baseline;   // seconds per run
  Summary candidate;
  int pairs = 0;
  int wins = 0;    // pairs in which the candidate was faster
  int losses = 0;
  double ratio = 1;    // median over the pairs of candidate / baseline
  double p_value = 1;  // one-sided sign test that the candidate is faster
};

struct ComparisonOptions {
  int warmup = 2;
  int pairs = 30;
  double max_seconds = 1e9;
  int min_pairs = 5;
  std::function<bool()> stop;
};

// Both take the same inputs.
absl::StatusOr<Comparison> CompareInterleaved(Executable& baseline, Executable& candidate,
                                              const std::vector<Tensor>& inputs, const ComparisonOptions& options);

}  // namespace rewright
