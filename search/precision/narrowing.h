// Chooses which applications of a graph are computed in 16 bits, so that the error of its outputs stays below a
// tolerance (docs/rounding.md).
//
// One backward pass tells what the rounding of every value does to an output (core/numerics/error_estimate.h). All
// applications that may become narrow do, and then those become wide again that add most error for the work that they
// save, until the estimate keeps to the tolerance. The result is run beside the original; what the estimate got wrong
// is made up for by another tolerance. Where some stay wide, the same is done for products with weights that read
// operands of 16 bits and give f32, and the faster one of both is taken. The report tells measured errors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/numerics/error_estimate.h"
#include "runtime/measure/interleaved.h"

namespace rewright {

struct NarrowingOptions {
  // The greatest difference of an element of an output, as a share of the output's largest element.
  double tolerance = 0;
  DType type = DType::kBFloat16;
  // Inputs on which the error is measured; the first ones are those of the estimate.
  std::vector<std::vector<Tensor>> inputs;
  uint64_t seed = 1;
  int threads = 1;
  bool measure = true;  // times both; off where the runner is not the device
  MeasureOptions measuring;
  double significance = 0.05;  // of the sign test that says that the result is faster
  std::function<void(const std::string&)> phase;
  // Asked before each estimate, run and measurement: true ends the choice, and the original stays.
  std::function<bool()> stop;
};

struct Narrowing {
  std::optional<Graph> graph;         // none: the original stays
  std::string verdict;                // one sentence
  int narrow = 0;                     // applications that are computed in the type
  int eligible = 0;                   // that could be
  double estimated = 0;               // typical error, as a share of the largest element
  double measured = 0;                // largest error, likewise
  std::vector<ErrorShare> kept_wide;  // the applications that would have added most error, at most ten
  std::optional<Measurement> timing;
  std::vector<Tensor> expected;  // outputs of the original on the first inputs, where it was run
};

// Returns the largest difference of an element of an output, as a share of its largest one; infinite where one of both
// alone is not finite.
double LargestDifference(const Tensor& expected, const Tensor& found);
// The largest one of all outputs.
double LargestDifference(const std::vector<Tensor>& expected, const std::vector<Tensor>& found);

// `runner` runs both graphs. Errors: the graph or its estimate does not run.
absl::StatusOr<Narrowing> ChooseNarrowNodes(const Graph& graph, GraphRunner& runner, const NarrowingOptions& options);

}  // namespace rewright
