// Estimates to first order by how much rounding changes the outputs of a graph (docs/rounding.md).
//
//   worst    the sum over all values v and their elements e of |dy / de| * error(e)
//   typical  the root of the sum of the squares (dy / de)^2 * square(e)
//
// for an element y of an output. error(e) bounds the roundings of the operation that gives e: unit roundoffs of the
// type in which it is computed, one of the type in which it is stored if that is narrower, and half of the smallest
// subnormal number there. Values that are only moved add nothing. Derivatives come from one backward pass for each
// examined y; roundings inside of an operator follow from its declaration (core/numerics/rounding_op.h).
//
// The estimate omits terms of second order, and the effect of decisions that change for rounded values; it counts
// these.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright {

// The precision of a run: elements are stored in `stored`. In tf32 the operands of products are rounded to 11 bits and
// all else is f32.
struct RunPrecision {
  std::optional<DType> stored;  // none: each value in its own type
  bool tf32 = false;
};
// Parses "f16", "bf16", "tf32", "f32", "f64"; nothing for other names.
std::optional<RunPrecision> ParseRunPrecision(const std::string& name);

struct ErrorOptions {
  RunPrecision precision;
  // The number of elements of each output that are examined: the largest, then drawn ones.
  int elements = 1;
  // The greatest number of examined elements in all, outputs in order: each needs a backward pass.
  int most_looks = 8;
  // Replaces the two numbers above: the elements to examine, by output. Outputs that are not named are not examined.
  std::map<std::string, std::vector<int64_t>> at;
  uint64_t seed = 0;
  int threads = 1;
  GraphRunner* runner = nullptr;                                       // null: the interpreter
  std::function<absl::StatusOr<Graph>(const Graph&)> lower = nullptr;  // transforms a graph before it runs
  // Runs the graph twice more by the interpreter, in this precision and in f64, to measure the errors.
  bool measure = false;
};

struct ErrorShare {
  Value value;       // of the graph
  std::string name;  // of the value, else of the node
  std::string op;    // of a leaf: input, weight or constant
  double worst = 0;
  double square = 0;
};

// One element of an output.
struct OutputError {
  std::string output;
  int64_t element = 0;
  double value = 0;
  double worst = 0;
  double typical = 0;
  std::vector<ErrorShare> shares;  // the largest typical share first
  std::optional<double> measured;  // |computed - value in f64|
};

struct ErrorEstimate {
  std::vector<OutputError> looks;
  std::vector<std::string> without;    // outputs of integers and truth values: none is estimated
  std::vector<std::string> empty;      // outputs without elements
  std::vector<std::string> unlooked;   // outputs beyond most_looks
  std::vector<std::string> decisions;  // nodes whose decisions depend on rounded values
  std::vector<std::string> blocked;    // nodes that have no derivative: errors before them are left out
  // Nodes whose results exceed the largest number of the type and become infinities.
  std::vector<std::string> overflows;
  // CPU seconds of the one run that gives all of this, and of its preparation: facts, derivatives, and compilation but
  // for the interpreter's, which is part of its run.
  double run_seconds = 0;
  double prepare_seconds = 0;
  double forward_seconds = 0;  // with `measure`, as run_seconds then: of one run, after one in f64
};

// Estimates the errors; `inputs` are in the order of Graph::inputs(). Errors: those of running the graph; an operator
// that does not admit the precision; a node of several hundred operands or results.
absl::StatusOr<ErrorEstimate> EstimateErrors(const Graph& graph, const std::vector<Tensor>& inputs,
                                             const ErrorOptions& options);

// Returns the output with the greatest worst case relative to its largest element, which is the first one examined;
// nothing if there is none.
struct RelativeError {
  double worst = 0;
  double typical = 0;
};
std::optional<RelativeError> LargestError(const ErrorEstimate& estimate);
// Returns a text such as "worst 3.1e-06, typical 4e-07 of the largest element".
std::string ErrorText(const RelativeError& error);

}  // namespace rewright
