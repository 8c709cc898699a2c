#include "verifier/equal/known_equal.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/tensor/compare.h"

namespace rewright {
namespace {

// Terms of second order, as a part of the bound of first order.
constexpr double kSecondOrder = 1e-3;
// Units in the last place of f64 that its own run may be off where nothing is rounded in the model's types.
constexpr double kUnitsOfF64 = 4;
// Numbers are near where this many bounds of both explain the difference. Narrow types get less: values that differ
// there are further apart by far.
double NearBounds(DType dtype) { return IsHalf(dtype) ? 1.5 : 4; }
// Larger differences are not examined any closer: more than this part of the largest magnitude, or than this many
// halves of a unit in the last place.
constexpr double kCoarse = 1e-3;
constexpr double kCoarseUnits = 16;

bool Same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

bool SameNumbers(const Tensor& a, const Tensor& b) {
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (!Same(a.At(i), b.At(i))) return false;
  }
  return true;
}

bool CoarselyEqual(const Tensor& a, const Tensor& b, double largest) {
  const double allowed = std::max(kCoarse, kCoarseUnits * RoundingOf(a.dtype())) * largest;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if (!Same(x, y) && !(std::abs(x - y) <= allowed)) return false;
  }
  return true;
}

double ErrorAt(const RunningError& of, int64_t i) { return of.error ? of.error->At(i) : 0; }

// True if the bounds, times a factor, explain all differences.
bool Explained(const RunningError& a, const RunningError& b, double factor) {
  const double units = a.error || b.error ? kUnitsOfF64 * RoundingOf(DType::kFloat64) : 0;
  for (int64_t i = 0; i < a.value.num_elements(); ++i) {
    const double x = a.value.At(i), y = b.value.At(i);
    if (Same(x, y)) continue;
    const double noise = units * std::max(std::abs(x), std::abs(y));
    if (!(std::abs(x - y) <= factor * (ErrorAt(a, i) + ErrorAt(b, i)) + noise)) return false;
  }
  return true;
}

// True if both are the same real numbers, as far as the runs in f64 tell: these round less than the types of the model
// by the ratio of their units.
bool SameReals(const RunningError& a, const RunningError& b, DType dtype) {
  const double ratio = kUnitsOfF64 * RoundingOf(DType::kFloat64) / RoundingOf(ComputedDType(dtype));
  return a.bounded == b.bounded && Explained(a, b, std::min(ratio, 1.0));
}

// The greatest difference, relative to the largest magnitude.
double Apart(const Tensor& a, const Tensor& b) {
  const double largest = LargestMagnitude(a), apart = Compare(a, b).max_abs;
  return largest > 0 ? apart / largest : apart;
}

}  // namespace

absl::StatusOr<KnownValues::Rounded> KnownValues::RoundedOf(Value value) {
  const auto it = rounded_.find(value);
  if (it != rounded_.end()) return it->second;
  Rounded rounded;
  if (const Tensor* leaf = arena_->Elements(value.node)) {
    rounded.value = *leaf;
  } else {
    ASSIGN_OR_RETURN(const std::vector<Tensor> computed, ComputeKnown(arena_, {value}, threads_));
    rounded.value = computed[0];
  }
  rounded.largest = LargestMagnitude(rounded.value);
  ReleasePages(rounded.value.data(), rounded.value.num_bytes());
  return rounded_[value] = rounded;
}

bool KnownValues::DependsOn(Value value, Value leaf) const {
  const Graph graph(arena_, {}, {{value, ""}});
  if (graph.contains(leaf.node)) return true;
  return std::any_of(folded_.begin(), folded_.end(), [&](const auto& one) {
    return one.first != value && graph.contains(one.first.node) && DependsOn(one.second, leaf);
  });
}

absl::StatusOr<RunningError> KnownValues::ExactOf(Value value, bool leaves_rounded) {
  RunningErrorOptions options{.instead = {}, .leaves_rounded = leaves_rounded, .threads = threads_};
  const Graph graph(arena_, {}, {{value, ""}});
  for (const auto& [leaf, computed] : folded_) {
    if (leaf == value || !graph.contains(leaf.node)) continue;
    ASSIGN_OR_RETURN(RunningError stand_in, ExactOf(computed));
    ASSIGN_OR_RETURN(const Rounded rounded, RoundedOf(leaf));
    const Tensor& stored = rounded.value;
    stand_in.error = Tensor(stand_in.value.type());
    for (int64_t i = 0; i < stored.num_elements(); ++i) {
      const double by = std::abs(stored.At(i) - stand_in.value.At(i));
      stand_in.error->Set(i, std::isnan(by) ? 0 : by);
    }
    options.instead.emplace(leaf, std::move(stand_in));
  }
  return RunningErrorOf(arena_, value, options);
}

absl::StatusOr<bool> KnownValues::IsTaken(const Tensor& given, const RunningError& computed) {
  for (const auto& [other, its_computation] : folded_) {
    ASSIGN_OR_RETURN(const Rounded rounded, RoundedOf(other));
    if (rounded.value.type() != given.type() || SameNumbers(given, rounded.value)) continue;
    if (!CoarselyEqual(given, rounded.value, rounded.largest)) continue;
    ASSIGN_OR_RETURN(const RunningError exact, ExactOf(its_computation));
    if (SameReals(exact, computed, given.dtype())) return true;
  }
  return false;
}

absl::StatusOr<std::optional<KnownPair>> KnownValues::RelateGiven(Value given, const RunningError& as_given,
                                                                  Value computed, const RunningError& exact) {
  ASSIGN_OR_RETURN(const Rounded stored, RoundedOf(given));
  ASSIGN_OR_RETURN(const Rounded rounded, RoundedOf(computed));
  const bool same_bits = stored.value.BitEqual(rounded.value);
  const KnownPair pair{KnownRelation::kFolded, same_bits ? 0 : Apart(exact.value, as_given.value)};
  for (const auto& [other, its_computation] : folded_) {
    if (other != given) continue;
    ASSIGN_OR_RETURN(const RunningError before, ExactOf(its_computation));
    if (!SameReals(exact, before, stored.value.dtype())) return std::nullopt;
    return pair;
  }
  if (!same_bits && (!exact.bounded || !Explained(exact, as_given, 1 + kSecondOrder))) return std::nullopt;
  if (DependsOn(computed, given)) return std::nullopt;
  ASSIGN_OR_RETURN(const bool taken, IsTaken(stored.value, exact));
  if (taken) return std::nullopt;
  folded_.emplace_back(given, computed);
  return pair;
}

absl::StatusOr<bool> KnownValues::IsNear(Value a, Value b) {
  ASSIGN_OR_RETURN(const RunningError x, ExactOf(a, /*leaves_rounded=*/true));
  ASSIGN_OR_RETURN(const RunningError y, ExactOf(b, /*leaves_rounded=*/true));
  return x.bounded && y.bounded && Explained(x, y, NearBounds(arena_->type(a).dtype));
}

absl::StatusOr<std::optional<KnownPair>> KnownValues::Relate(Value a, Value b, bool near) {
  if (a == b) return KnownPair();
  if (arena_->type(a) != arena_->type(b)) return std::nullopt;
  ASSIGN_OR_RETURN(const Rounded of_a, RoundedOf(a));
  ASSIGN_OR_RETURN(const Rounded of_b, RoundedOf(b));
  if (!IsFloating(of_a.value.dtype())) {
    if (of_a.value.BitEqual(of_b.value)) return KnownPair();
    return std::nullopt;
  }
  if (!CoarselyEqual(of_a.value, of_b.value, std::max(of_a.largest, of_b.largest))) return std::nullopt;
  ASSIGN_OR_RETURN(const RunningError x, ExactOf(a));
  ASSIGN_OR_RETURN(const RunningError y, ExactOf(b));
  const auto is_given = [](const RunningError& value) { return value.bounded && !value.error; };
  if (is_given(x) && is_given(y)) {
    if (SameNumbers(x.value, y.value)) return KnownPair();
  } else if (is_given(x) || is_given(y)) {
    ASSIGN_OR_RETURN(const std::optional<KnownPair> pair,
                     is_given(x) ? RelateGiven(a, x, b, y) : RelateGiven(b, y, a, x));
    if (pair) return pair;
  } else if (SameReals(x, y, of_a.value.dtype())) {
    return KnownPair{KnownRelation::kSame, of_a.value.BitEqual(of_b.value) ? 0 : Apart(of_a.value, of_b.value)};
  }
  if (!near) return std::nullopt;
  ASSIGN_OR_RETURN(const bool is_near, IsNear(a, b));
  if (!is_near) return std::nullopt;
  return KnownPair{KnownRelation::kNear, Apart(of_a.value, of_b.value)};
}

}  // namespace rewright
