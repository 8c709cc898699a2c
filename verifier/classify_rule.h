// The numerical class of a rule that is proved over the real numbers: what happens to its results in float32.
//
// Found by measurement, since no proof over the reals can tell: both sides of instances are computed by the reference
// interpreter in float32 and in float64, on leaves of ordinary size, of very different sizes, and far from zero with
// little spread (where cancellation shows).
//
//   exact               both sides had the same bits every time
//   numerically-risky   somewhere the right side's error was more than kRiskFactor times the left side's (or the
//                       rounding of its result), or it was not finite where the left side was
//   finite-only         the proof used a law that fails for infinities
//   reassociating       everything else
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "substitutions/instance.h"
#include "substitutions/rule.h"
#include "verifier/verifier.h"

namespace rewright {

inline constexpr double kRiskFactor = 100;

// Fed with the proved instances of one rule.
class RuleClassifier {
 public:
  explicit RuleClassifier(uint64_t seed) : rng_(seed) {}

  void Add(const RuleInstance& instance, const ProofResult& proof);
  RuleClass Class() const;

 private:
  enum class Leaves : uint8_t { kOrdinary, kScaled, kFarFromZero };
  void Measure(const RuleInstance& instance, const std::vector<int64_t>& symbols, Leaves leaves);

  std::mt19937_64 rng_;
  int measured_instances_ = 0;
  int samples_ = 0;
  bool same_bits_ = true;
  bool risky_ = false;
  bool finite_only_ = false;
};

}  // namespace rewright
