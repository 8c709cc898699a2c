// Parts that verbs which tell errors of rounding share (core/numerics/error_estimate.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/numerics/error_estimate.h"
#include "core/numerics/interval.h"
#include "tools/library/engine.h"
#include "tools/program/console.h"

namespace rewright {

// Options for a graph of that size: a large one is looked at once.
ErrorOptions RoundingOptions(const Graph& graph, const CommonFlags& common);

// The engine on which estimates run.
class RoundingEngine {
 public:
  // The device "reference" is the interpreter.
  static absl::StatusOr<RoundingEngine> Open(const std::string& device, int64_t threads, const ImportedModel& model);
  // Estimates of the graph by these options run here.
  void Use(const Graph& graph, ErrorOptions* options);
  absl::StatusOr<std::vector<Tensor>> Run(const Graph& graph, const std::vector<Tensor>& inputs);

 private:
  explicit RoundingEngine(Engine engine) : engine_(std::make_unique<Engine>(std::move(engine))) {}
  std::unique_ptr<Engine> engine_;
};

// A line for verbs that look at outputs anyway: "of the outputs, estimated: worst 3.1e-06, typical 4e-07 of the largest
// element"; `json` gets both numbers. Nothing where the graph is too large for what that would cost, or does not run.
std::optional<std::string> RoundingLine(const Graph& graph, const std::vector<Tensor>& inputs,
                                        const CommonFlags& common, Console& console, Json* json);

// Draws inputs that have a range uniformly from it. Errors: a name that is no input, an input of no numbers, integers
// of which the range holds none.
absl::Status DrawFromRanges(const Graph& graph, const std::map<std::string, Interval>& ranges, uint64_t seed,
                            std::vector<Tensor>* inputs);

}  // namespace rewright
