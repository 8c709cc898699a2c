// Measures if one executable is faster than another, so that a busy machine meets both alike, and remembers earlier
// measurements.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/measure/timing_policy.h"

namespace rewright {

struct MeasureOptions {
  int warmup = timing::kWarmupRuns;
  int pairs = timing::kPairs;
  std::function<double()> clock;  // seconds; empty: the steady clock
  // The time that the pairs go on for, up to ten times their number: a small graph gets a test that sees small
  // differences.
  double seconds = 0;
  // Runs after each pair: true ends the measurement with the pairs so far.
  std::function<bool()> stop;
  double least_seconds =
      timing::kLeastSeconds;  // `stop` ends the measurement only after the pairs have run for this long
  // The level of the sign test. If it is above 0 and `seconds` is 0, the measurement ends early: when the candidate has
  // the wins that the test wants after `pairs` pairs, when it cannot reach them any more, or after a few pairs of which
  // it has not won more than half, if a gain that counts is excluded. Accidents pass for gains no more often than
  // without it.
  double significance = 0;
};

struct Measurement {
  double original_seconds = 0;  // medians
  double candidate_seconds = 0;
  double ratio = 1;  // median over the pairs of original / candidate: above 1 the candidate is faster
  // An upper bound of that median with a probability of 97.5 % (an order statistic); infinite for less than six pairs.
  double ratio_at_most = 1;
  int wins = 0;  // pairs in which the candidate was faster
  int losses = 0;
  double p_value = 1;    // one-sided sign test: probability of this many wins by accident
  bool stopped = false;  // by MeasureOptions::stop: with more time the verdict might be another
};

// True if the candidate is faster, by the sign test; `times` tests share the probability that one passes by accident.
bool IsFaster(const Measurement& measured, double significance, size_t times = 1);
// "12 ms against 14 ms, 28 of 30 pairs faster".
std::string Describe(const Measurement& measured);

// Keeps the timings of graphs of one device against one another, by their canonical hashes: weights count by their
// types. Also keeps which searches a time limit has ended, by the graph and the setting: everything that a search
// depends on except costs.
class MeasurementCache {
 public:
  virtual ~MeasurementCache() = default;
  virtual absl::StatusOr<std::optional<Measurement>> Find(const Graph& original, const Graph& candidate) = 0;
  virtual void Keep(const Graph& original, const Graph& candidate, const Measurement& measured) = 0;

  // The longest limit, in seconds, that ended a search with that setting; 0: none did.
  virtual absl::StatusOr<double> LimitThatEnded(const Graph& original, const std::string& setting) = 0;
  virtual void KeepLimit(const Graph& original, const std::string& setting, double seconds) = 0;
  // With `measure` the device measures costs that are not kept (as it does at first); else it has none (kNotFound).
  virtual void MeasureNew(bool measure) = 0;
};

// Runs both in turn, pair by pair, exchanging who goes first.
absl::StatusOr<Measurement> MeasureInterleaved(Executable& original, Executable& candidate,
                                               const std::vector<Tensor>& inputs, const MeasureOptions& options);

}  // namespace rewright
