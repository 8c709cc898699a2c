// The numerical class of a rule that is proved over the real numbers: what happens to its results in float32.
//
// Found by measurement, since no proof over the reals can tell: both sides of instances are computed by the reference
// interpreter in float32 and in float64, on leaves of ordinary size, of very different sizes, far from zero with little
// spread (where cancellation shows), and on leaves with one element that is infinite or NaN.
//
//   numerically-risky   somewhere the right side's error was more than kRiskFactor times the left side's (or the
//                       rounding of its result), or it was not finite where the left side was, on finite leaves
//   finite-only         the proof used a law that fails for infinities, or, with an infinite or NaN element among the
//                       leaves, one side was finite somewhere where the other was not
//   exact               both sides had the same bits every time, those of infinities included
//   reassociating       everything else
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/tensor.h"
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
  enum class Leaves : uint8_t { kOrdinary, kScaled, kFarFromZero, kNotFinite };
  // Assignments of the symbols to measure at: the largest of those that the search for counterexamples draws.
  std::vector<std::vector<int64_t>> Assignments(const RuleInstance& instance);
  void Measure(const RuleInstance& instance, const std::vector<int64_t>& symbols, Leaves leaves);
  int64_t RandomInteger(DType dtype, Leaves kind);
  bool SpoilOne(const RuleInstance& instance, std::vector<Tensor>* leaves);
  void CompareFiniteness(const Tensor& left, const Tensor& right);

  std::mt19937_64 rng_;
  int measured_instances_ = 0;
  int samples_ = 0;
  bool same_bits_ = true;
  bool risky_ = false;
  bool finite_only_ = false;
};

}  // namespace rewright
