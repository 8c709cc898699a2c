// Decides if two values that are known before a run are equal but for rounding: for example a weight and the
// computation that some program folded into it.
//
// Both are computed in their own types and in f64 from the weights of the models. Equal bits are equal. Otherwise
// rounding must explain the difference at each element. Its bound has two parts: how far the own type is from f64
// there, and how far the element moves when every weight below moves by up to half a unit in the last place of its
// type. Values that only move data must agree in all bits, since nothing rounds them.
#pragma once

#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

class KnownValues {
 public:
  KnownValues(std::shared_ptr<Arena> arena, int threads) : arena_(std::move(arena)), threads_(threads) {}

  // The greatest difference of their elements, relative to the largest magnitude (0: the same bits); nothing where they
  // are not equal. Both are known values of the arena. Errors: they cannot be computed.
  absl::StatusOr<std::optional<double>> Difference(Value a, Value b);

 private:
  // The exact elements, and how far rounding may move each of them.
  struct Exact {
    Tensor value;      // f64
    Tensor tolerance;  // f64; all zero where nothing is rounded
  };
  struct Rounded {
    Tensor value;
    double largest = 0;  // finite magnitude
  };
  absl::StatusOr<Rounded> RoundedOf(Value value);
  absl::StatusOr<Exact> ExactOf(Value value, const Tensor& rounded);

  std::shared_ptr<Arena> arena_;
  int threads_;
  absl::flat_hash_map<Value, Rounded> rounded_;
};

}  // namespace rewright
