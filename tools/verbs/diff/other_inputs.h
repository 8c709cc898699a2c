// Inputs on which two models are compared besides ordinary ones, since many models agree on ordinary numbers alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "tools/verbs/diff/tensor_diff.h"

namespace rewright {

struct OtherInputs {
  std::string kind;  // "large reals"
  std::vector<Tensor> tensors;
  // Reals are of another size: a difference counts where f64 shows it, too, or where the second model loses a number.
  bool moves_reals = false;
};

// Returns the sets in which `ordinary` is changed: integers that index nothing have other sizes than 0 and 1, which are
// their own squares; reals are small or large, reach the ends of f16, or are halves, where roundings, comparisons and
// argmax tie; both lie around the numbers that a model holds (core/ir/graph_numbers.h). Reals stay as they are in
// models of more than a GFLOP. Error: memory for inputs.
absl::StatusOr<std::vector<OtherInputs>> DrawOtherInputs(const Graph& a, const Graph& b,
                                                         const std::vector<Tensor>& ordinary, uint64_t seed);

// Returns what WhereNumbersAre does for each output: what the first model loses is no difference.
std::vector<Tensor> WhereNumbersAre(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual);

// True if an element is a number in `expected`, and an infinity or no number in `actual`.
bool LosesNumbers(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual);

// True if the outputs of these names differ where both models are computed in f64, that is, for another reason than
// rounding. False where one cannot be interpreted on these inputs (in the order of `a`).
bool DifferInF64(const Graph& a, const Graph& b, const std::vector<Tensor>& inputs, const Tolerance& tolerance,
                 int threads);

}  // namespace rewright
