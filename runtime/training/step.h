// The graph of a step of training: forward pass, loss, gradients and update are one graph.
//
// Where a step is cut into micro-batches there are two: the gradients of a micro-batch, and the update from the sums of
// these, which are added in between (runtime/comm/all_reduce.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/training/loss.h"
#include "runtime/training/optimizer.h"

namespace rewright {

struct StepOptions {
  LossKind loss = LossKind::kCrossEntropy;
  std::string output;               // the model's output that the loss reads; empty: its only one
  std::vector<std::string> frozen;  // patterns of weights that keep their values
  std::vector<std::string> order;   // weights that stand first in StepGraphs::trained; others as in the model
  OptimizerOptions optimizer;
  int64_t micro_batches = 1;  // of a step; the model is one of the batch of each
};

// A model as it is used and as a step of training computes it: dropout and batch norm are something else there.
struct TrainableModel {
  // One that training does not change.
  TrainableModel(const Graph& model)  // NOLINT(google-explicit-constructor): a graph is such a model
      : inference(model), training(CopyGraph(model, Mode::kTraining)) {}
  TrainableModel(Graph inference, Graph training, std::map<std::string, std::string> left = {})
      : inference(std::move(inference)), training(std::move(training)), left(std::move(left)) {}

  Graph inference;  // at inference; its states are the weights, with their initial values
  // The graph in mode training, with the inputs, results and weights of `inference`. States to which it gives next
  // values, such as running averages, are not trained.
  Graph training;
  std::map<std::string, std::string> left = {};  // floating states that are no weights: why (ImportedModel::left)
};

// The type of the value that the loss reads beside the model's output.
struct TargetSignature {
  TensorType type;
  int64_t classes = 0;  // labels are below it; 0: no labels
};

// The target of a model at inference. Errors: no such output, an output that the loss is not defined for.
absl::StatusOr<TargetSignature> TargetOf(const Graph& model, const StepOptions& options);

// Names of results of a step. A next value has the name of its state.
inline constexpr char kLossResult[] = "loss";                       // [] of the type of the model's output
inline constexpr char kRateResult[] = "learning_rate";              // OptimizerGraph
inline constexpr char kMagnitudesResult[] = "magnitudes";           // likewise
inline constexpr char kNextMagnitudesResult[] = "next_magnitudes";  // likewise, where next values are looked at
inline constexpr char kGradientNormResult[] = "gradient_norm";      // likewise, where gradients are clipped

// Names of inputs of a step of micro-batches.
inline constexpr char kLossSum[] = "loss.sum";
inline constexpr char kMicroBatchInput[] = "micro_batch";  // its number in the step, i64[]
std::string SumOfGradients(const std::string& weight);     // "gradients.layer0.weight"; StepGraphs::updated

struct StepGraphs {
  // Inputs: those of the model, then the target; with micro-batches the sums over these of what is in the results of
  // `gradients`, in the order in which it stands there.
  // Results: the ones above, of the whole batch.
  Graph step;
  // With micro-batches: the loss of one, its gradients by the weights of `trained` and the next values that it gives
  // states of the model, one after another in a vector for each element type, `gradients.f32` and so on; the loss
  // stands first in the first one. Inputs are those of the model and the target. Without: no arena.
  // Where it has masks of random numbers (dropout), there are two more inputs behind these, numbers: the seed of the
  // step, with the name that its state has elsewhere, and kMicroBatchInput. A mask is a part of that of the whole
  // batch, where its first axis is the batch.
  Graph gradients;
  std::optional<int64_t> first_seed;  // of the first step, where `gradients` has masks
  bool has_gradients() const { return gradients.arena() != nullptr; }
  // At inference, with the same inputs; for training, without next values, so that its weights can be set. Results: the
  // loss of every sample, [n], and where the loss has it the share of labels that are right, [n].
  Graph evaluation;
  // The weights that are trained, in the order of the magnitudes of their gradients.
  std::vector<std::string> trained;
  // Floating states of the model that are not, by name: why.
  std::map<std::string, std::string> left;
  std::vector<std::string> checked;  // OptimizerGraph
  // With micro-batches: these, and the states of the model that take the mean of the next values that micro-batches
  // give them, such as running averages.
  std::vector<std::string> updated;
};

// Trained are the states with floating-point elements that the output depends on, but for those that the model leaves
// (TrainableModel::left) or gives next values, and what a pattern of `frozen` fits. Errors: those of TargetOf and
// AddOptimizer, a pattern that fits no weight, nothing to train, what has no gradient, a weight that is not finite.
absl::StatusOr<StepGraphs> BuildStep(const TrainableModel& model, const StepOptions& options);

// The graph of a micro-batch with the loss and the gradients one by one: results of the names and types of the inputs
// of `step`, in their order. A program that a search has changed has the same values; where it does not end with
// vectors that are joined of them, these are cut.
absl::StatusOr<Graph> Unpacked(const Graph& gradients, const Graph& step);

// The states whose gradients or next values the inputs of a step of micro-batches are sums of, behind that of the loss;
// `updated` is StepGraphs::updated.
std::vector<std::string> StatesOfInputs(const Graph& step, const std::vector<std::string>& updated);

// Checks that two graphs have the same inputs, outputs and states, by names and types. Errors name the difference.
absl::Status CheckSameInterface(const Graph& found, const Graph& expected);

}  // namespace rewright
