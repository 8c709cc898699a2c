// Decides if two values that are known before a run are equal: for example a weight and the computation that some
// program folded into it.
//
// Numbers that both models have as they are must be the same numbers. Where one of them computes what the other has as
// a weight, the weight must be within the rounding of that computation: both are taken to f64, with a bound of first
// order for the roundings of each operation on the way (core/numerics/rounding_op.h). Two computations must give the
// same numbers in f64. Values that only move data, and sums and products without a remainder, are not rounded at all.
//
// A weight stands for one computation, and a computation for one weight, so two weights are never made equal by way of
// a computation that is near to both.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/numerics/running_error.h"

namespace rewright {

enum class KnownRelation : uint8_t {
  kSame,    // the same numbers
  kFolded,  // one is the other, computed beforehand
  kNear,    // neither, and within a few units in the last place
};

struct KnownPair {
  KnownRelation relation = KnownRelation::kSame;
  double error = 0;  // the greatest difference, relative to the largest magnitude; 0: the same bits
};

class KnownValues {
 public:
  KnownValues(std::shared_ptr<Arena> arena, int threads) : arena_(std::move(arena)), threads_(threads) {}

  // Relates known values of the arena; nothing where they are further apart. A weight that is found to be folded from a
  // computation has the numbers of that computation from then on. `near`: looks for kNear as well. Errors: they cannot
  // be computed.
  absl::StatusOr<std::optional<KnownPair>> Relate(Value a, Value b, bool near = false);

  // The number of weights that were found to be folded.
  size_t folded() const { return folded_.size(); }

 private:
  struct Rounded {
    Tensor value;
    double largest = 0;  // finite magnitude
  };
  absl::StatusOr<Rounded> RoundedOf(Value value);
  absl::StatusOr<RunningError> ExactOf(Value value, bool leaves_rounded = false);
  // `given` is a value that nothing rounds, and `computed` another one.
  absl::StatusOr<std::optional<KnownPair>> RelateGiven(Value given, const RunningError& as_given, Value computed,
                                                       const RunningError& exact);
  absl::StatusOr<bool> IsNear(Value a, Value b);
  // True if another weight is already folded from the same numbers.
  absl::StatusOr<bool> IsTaken(const Tensor& given, const RunningError& computed);
  // True if the value is computed from the leaf, folded weights counted as what they are computed from.
  bool DependsOn(Value value, Value leaf) const;

  std::shared_ptr<Arena> arena_;
  int threads_;
  absl::flat_hash_map<Value, Rounded> rounded_;
  std::vector<std::pair<Value, Value>> folded_;  // weights, and their computations
};

}  // namespace rewright
