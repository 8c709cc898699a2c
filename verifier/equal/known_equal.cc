#include "verifier/equal/known_equal.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/tensor/compare.h"

namespace rewright {
namespace {

constexpr int kPerturbations = 3;
// Margins over the measured differences. Narrow types get less: values that differ there are further apart by far, and
// sums of them are folded in a wider type.
double MarginOf(DType dtype) { return IsHalf(dtype) ? 1.5 : 4; }
// Larger differences are not examined any closer: more than this part of the largest magnitude, or than this many
// halves of a unit in the last place.
constexpr double kCoarse = 1e-3;
constexpr double kCoarseUnits = 16;

bool Same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

bool CoarselyEqual(const Tensor& a, const Tensor& b, double largest) {
  const double allowed = std::max(kCoarse, kCoarseUnits * RoundingOf(a.dtype())) * largest;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if (!Same(x, y) && !(std::abs(x - y) <= allowed)) return false;
  }
  return true;
}

// Every element of every state below moved by up to half a unit in its last place.
absl::StatusOr<absl::flat_hash_map<std::string, Tensor>> Perturbed(const Graph& graph, uint64_t seed) {
  absl::flat_hash_map<std::string, Tensor> moved;
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> distance(0.5, 1);
  for (Value state : graph.states()) {
    const Tensor& elements = *graph.arena()->Elements(state.node);
    if (!IsFloating(elements.dtype())) continue;
    ASSIGN_OR_RETURN(const Tensor wide, ToPrecision(elements, Precision::kFloat64));
    const double half_unit = RoundingOf(elements.dtype());
    Tensor copy(wide.type());
    for (int64_t i = 0; i < wide.num_elements(); ++i) {
      const double x = wide.At(i);
      copy.Set(i, x + (rng() & 1 ? 1 : -1) * distance(rng) * half_unit * std::abs(x));
    }
    moved.emplace(graph.node(state.node).name, std::move(copy));
  }
  return moved;
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
  return rounded_[value] = rounded;
}

absl::StatusOr<KnownValues::Exact> KnownValues::ExactOf(Value value, const Tensor& rounded) {
  const Graph graph(arena_, {}, {{value, ""}});
  const InterpretOptions options = {.precision = Precision::kFloat64, .threads = threads_};
  ASSIGN_OR_RETURN(std::vector<Tensor> outputs, InterpretGraph(graph, {}, options));
  Exact exact{outputs[0], Tensor(outputs[0].type())};
  bool rounds = false;
  for (int64_t i = 0; i < rounded.num_elements(); ++i) {
    const double error = std::abs(rounded.At(i) - exact.value.At(i));
    rounds = rounds || error > 0;
    exact.tolerance.Set(i, error);
  }
  if (!rounds) return exact;
  std::vector<double> moves(static_cast<size_t>(rounded.num_elements()));
  for (int k = 0; k < kPerturbations; ++k) {
    ASSIGN_OR_RETURN(const auto moved, Perturbed(graph, static_cast<uint64_t>(k) + 1));
    ASSIGN_OR_RETURN(outputs, InterpretGraph(graph, moved, options));
    for (int64_t i = 0; i < rounded.num_elements(); ++i) {
      double& most = moves[static_cast<size_t>(i)];
      most = std::max(most, std::abs(outputs[0].At(i) - exact.value.At(i)));
    }
  }
  const double half_unit = RoundingOf(rounded.dtype()), margin = MarginOf(rounded.dtype());
  for (int64_t i = 0; i < rounded.num_elements(); ++i) {
    const double stored = half_unit * std::abs(exact.value.At(i));
    exact.tolerance.Set(i, margin * (exact.tolerance.At(i) + moves[static_cast<size_t>(i)] + stored));
  }
  return exact;
}

absl::StatusOr<std::optional<double>> KnownValues::Difference(Value a, Value b) {
  if (a == b) return 0;
  if (arena_->type(a) != arena_->type(b)) return std::nullopt;
  ASSIGN_OR_RETURN(const Rounded of_a, RoundedOf(a));
  ASSIGN_OR_RETURN(const Rounded of_b, RoundedOf(b));
  const Tensor &first = of_a.value, &second = of_b.value;
  if (first.BitEqual(second)) return 0;
  if (!IsFloating(first.dtype()) || !CoarselyEqual(first, second, std::max(of_a.largest, of_b.largest))) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const Exact x, ExactOf(a, first));
  ASSIGN_OR_RETURN(const Exact y, ExactOf(b, second));
  double greatest = 0;
  for (int64_t i = 0; i < first.num_elements(); ++i) {
    const double apart = std::abs(x.value.At(i) - y.value.At(i));
    if (Same(x.value.At(i), y.value.At(i))) continue;
    if (!(apart <= x.tolerance.At(i) + y.tolerance.At(i))) return std::nullopt;
    greatest = std::max(greatest, apart);
  }
  const double largest = LargestMagnitude(x.value);
  return largest > 0 ? greatest / largest : greatest;
}

}  // namespace rewright
