#include "tools/verbs/error/rounding.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/base/threads.h"
#include "core/index/cost_features.h"
#include "core/ir/random_tensors.h"
#include "substitutions/lowering.h"
#include "tools/program/models.h"

namespace rewright {

// Above, a model is looked at once.
constexpr double kLargeFlops = 2e8;

// Above, the interpreter gains more from lowered derivatives than a second, for which the rules are read.
constexpr double kLoweredFlops = 4e9;
// Above, no verb estimates errors that was not asked to: a second or two of the interpreter.
constexpr double kMostFlops = 1e9;

ErrorOptions RoundingOptions(const Graph& graph, const CommonFlags& common) {
  ErrorOptions options;
  if (FeaturesOf(graph).flops > kLargeFlops) options.most_looks = 1;
  options.seed = common.seed;
  options.threads = NumThreads(common.threads);
  return options;
}

absl::StatusOr<RoundingEngine> RoundingEngine::Open(const std::string& device, int64_t threads,
                                                    const ImportedModel& model) {
  ASSIGN_OR_RETURN(Engine engine, Engine::Open(device, static_cast<int>(threads), /*profile=*/""));
  engine.Use(model);
  return RoundingEngine(std::move(engine));
}

void RoundingEngine::Use(const Graph& graph, ErrorOptions* options) {
  if (engine_->device() != nullptr) {
    options->runner = &engine_->runner();
  } else if (FeaturesOf(graph).flops < kLoweredFlops) {
    return;
  }
  options->lower = [](const Graph& graph) -> absl::StatusOr<Graph> {
    ASSIGN_OR_RETURN(const Lowering lowering, LowerGradients(graph));
    return lowering.graph;
  };
}

absl::StatusOr<std::vector<Tensor>> RoundingEngine::Run(const Graph& graph, const std::vector<Tensor>& inputs) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> executable, engine_->runner().Prepare(graph));
  std::vector<Tensor> outputs;
  RETURN_IF_ERROR(executable->Run(inputs, &outputs));
  return outputs;
}

std::optional<std::string> RoundingLine(const Graph& graph, const std::vector<Tensor>& inputs,
                                        const CommonFlags& common, Console& console, Json* json) {
  if (FeaturesOf(graph).flops > kMostFlops) return std::nullopt;
  ErrorOptions options = RoundingOptions(graph, common);
  options.most_looks = 1;
  const absl::StatusOr<ErrorEstimate> estimate = EstimateErrors(graph, inputs, options);
  if (!estimate.ok()) {
    console.Detail(absl::StrCat("rounding was not estimated: ", estimate.status().message()));
    return std::nullopt;
  }
  const std::optional<RelativeError> error = LargestError(*estimate);
  if (!error) return std::nullopt;
  *json = {{"worst", error->worst}, {"typical", error->typical}, {"decisions", estimate->decisions.size()}};
  return absl::StrCat("of the outputs, estimated: ", ErrorText(*error),
                      estimate->decisions.empty() ? "" : "; decisions behind rounded values are not covered");
}

absl::Status DrawFromRanges(const Graph& graph, const std::map<std::string, Interval>& ranges, uint64_t seed,
                            std::vector<Tensor>* inputs) {
  const std::vector<std::string> names = InputNames(graph);
  for (const auto& [name, range] : ranges) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--range: the model has no input `", name, "`, its inputs are ",
                                                     absl::StrJoin(names, ", "), DidYouMean(name, names)));
    }
    Tensor& input = (*inputs)[static_cast<size_t>(at - names.begin())];
    const bool integer = !IsFloating(input.dtype());
    if (input.dtype() == DType::kBool || (integer && std::ceil(range.lo) > std::floor(range.hi))) {
      return absl::InvalidArgumentError(absl::StrCat("--range: the input ", name, " is of ", input.type().ToString(),
                                                     ", of which nothing lies in ", range.lo, ":", range.hi));
    }
    Rng rng(seed + static_cast<uint64_t>(at - names.begin()));
    input = RandomTensor(input.type(), rng, range.lo, range.hi);
  }
  return absl::OkStatus();
}

}  // namespace rewright
