// Whether one executable is faster than another, measured so that a busy machine meets both alike.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/device.h"

namespace rewright {

struct MeasureOptions {
  int warmup = 3;
  int pairs = 30;
  std::function<double()> clock;  // seconds; empty: the steady clock
  // Goes on for so many seconds, up to ten times the pairs: what is small gets a test that sees small differences.
  double seconds = 0;
  // Asked after each pair: true ends the measurement with the pairs that there are.
  std::function<bool()> stop;
};

struct Measurement {
  double original_seconds = 0;  // medians
  double candidate_seconds = 0;
  double ratio = 1;  // median over the pairs of original / candidate: above 1 the candidate is faster
  int wins = 0;      // pairs in which the candidate was faster
  int losses = 0;
  double p_value = 1;  // one-sided sign test: that so many wins are an accident
};

// Runs both in turn, pair by pair, exchanging who goes first.
absl::StatusOr<Measurement> MeasureInterleaved(Executable& original, Executable& candidate,
                                               const std::vector<Tensor>& inputs, const MeasureOptions& options);

}  // namespace rewright
