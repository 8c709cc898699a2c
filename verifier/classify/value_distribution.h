// Draws elements to measure both sides of a rule at (classify_rule.h): those that make rounding go wrong, not likely
// ones.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "core/interpreter/interpreter.h"
#include "core/tensor/tensor.h"
#include "substitutions/instance/instance.h"
#include "verifier/refute/numeric_instance.h"

namespace rewright {

enum class Leaves : uint8_t {
  kOrdinary,
  kScaled,  // of very different sizes from leaf to leaf
  kFarFromZero,
  kOpposite,  // the same, some leaves above zero and some below it
  kSmall,     // near zero
  kSteep,     // where functions approach their limits
  kSteepest,  // where exponentials leave the range of the type
  kTies,
  kZeros,
  kExtreme,
  kFullRange,
  kNotFinite
};

class ValueDistribution {
 public:
  // With `half`, draws numbers that elements of that type tell apart.
  ValueDistribution(uint64_t seed, std::optional<DType> half) : rng_(seed), half_(half) {}

  // Real and integer attributes of the instance.
  std::vector<Number> Reals(const RuleInstance& instance, Leaves kind);
  // Leaves of the instance by node, of the types that they have there. False where a value is too large.
  bool Draw(const RuleInstance& instance, const NumericInstance& numeric, Leaves kind, Precision precision,
            std::vector<Tensor>* leaves);
  // Makes a real attribute infinite in half of the cases where one may be; false where it did not.
  bool InjectNonFiniteReal(const RuleInstance& instance, std::vector<Number>* reals);
  // Makes up to three elements of floating leaves infinite or NaN, or now and then many; false where there is none. Two
  // that are infinite may cancel.
  bool InjectNonFinite(const RuleInstance& instance, std::vector<Tensor>* leaves);

  uint64_t Next() { return rng_(); }

  static constexpr int64_t kMaxElements = 1 << 16;

 private:
  // How far leaves of a kind lie from zero: 16 bits resolve less.
  double Offset(Leaves kind);
  int64_t Integer(DType dtype, Leaves kind);
  double Extreme(DType dtype);
  double FullRange(DType dtype);
  void DrawFloats(DType dtype, Leaves kind, bool positive, int64_t count);

  std::mt19937_64 rng_;
  const std::optional<DType> half_;
  std::vector<double> drawn_;  // by DrawFloats
};

}  // namespace rewright
