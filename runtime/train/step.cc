#include "runtime/train/step.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/autodiff/autodiff.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

absl::StatusOr<Value> Prediction(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const Output& output : graph.outputs()) {
    if (output.name == name || (name.empty() && graph.outputs().size() == 1)) return output.value;
    names.push_back(output.name);
  }
  return absl::InvalidArgumentError(
      name.empty() ? absl::StrCat("the model has the outputs ", absl::StrJoin(names, ", "),
                                  "; which one is the loss of? (model.output)")
                   : absl::StrCat("the model has no output ", name, "; it has ", absl::StrJoin(names, ", ")));
}

std::string NameOf(const Graph& graph, Value leaf) { return graph.node(leaf.node).name; }

// A copy of the model for training, with its loss.
struct Forward {
  Graph model;
  std::vector<Value> inputs;  // and the target
  LossGraph loss;
};

absl::StatusOr<Forward> AddForward(const Graph& model, const StepOptions& options) {
  Forward forward{CopyGraph(model, Mode::kTraining)};
  Arena& arena = *forward.model.arena();
  forward.inputs = forward.model.inputs();
  ASSIGN_OR_RETURN(const Value prediction, Prediction(forward.model, options.output));
  ASSIGN_OR_RETURN(const TargetSignature signature, TargetOf(model, options));
  std::vector<std::string> taken;
  for (Value input : forward.inputs) taken.push_back(arena.node(input.node).name);
  for (Value state : forward.model.states()) taken.push_back(arena.node(state.node).name);
  std::string name = "target";
  while (std::find(taken.begin(), taken.end(), name) != taken.end()) name += "_";
  ASSIGN_OR_RETURN(const Value target, arena.AddInput(name, signature.type));
  forward.inputs.push_back(target);
  forward.loss = AddLoss(arena, options.loss, prediction, target);
  return forward;
}

// The weights to train, in the order of the graph.
absl::StatusOr<std::vector<Value>> Trained(const Forward& forward, const std::vector<std::string>& frozen) {
  const Graph loss(forward.model.arena(), forward.inputs, {{forward.loss.mean, kLossResult}});
  std::vector<bool> fits(frozen.size(), false);
  std::vector<Value> trained;
  for (Value state : loss.states()) {
    const Node& node = loss.node(state.node);
    bool is_frozen = false;
    for (size_t i = 0; i < frozen.size(); ++i) {
      if (!MatchesPattern(frozen[i], node.name)) continue;
      fits[i] = is_frozen = true;
    }
    if (!is_frozen && IsFloating(node.outputs[0].dtype)) trained.push_back(state);
  }
  for (size_t i = 0; i < frozen.size(); ++i) {
    if (!fits[i]) return absl::InvalidArgumentError(absl::StrCat("model.frozen: `", frozen[i], "` fits no weight"));
  }
  if (trained.empty()) return absl::InvalidArgumentError("the model has no weight to train");
  return trained;
}

// "x f32[2,3], y i64[2]" of inputs in their order or of states by name.
std::string Listed(const Graph& graph, std::vector<Value> leaves, bool sorted) {
  std::vector<std::string> texts;
  for (Value leaf : leaves) texts.push_back(absl::StrCat(NameOf(graph, leaf), " ", graph.type(leaf).ToString()));
  if (sorted) std::sort(texts.begin(), texts.end());
  return absl::StrJoin(texts, ", ");
}

std::string ListedOutputs(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Output& output : graph.outputs()) {
    const char* kind = output.updates.node >= 0 ? "update " : "";
    texts.push_back(absl::StrCat(kind, output.name, " ", graph.type(output.value).ToString()));
  }
  std::sort(texts.begin(), texts.end());
  return absl::StrJoin(texts, ", ");
}

}  // namespace

absl::StatusOr<TargetSignature> TargetOf(const Graph& model, const StepOptions& options) {
  ASSIGN_OR_RETURN(const Value prediction, Prediction(model, options.output));
  const TensorType& type = model.type(prediction);
  const auto target = TargetType(options.loss, type);
  if (!target.ok()) return absl::InvalidArgumentError(absl::StrCat("the loss: ", target.status().message()));
  return TargetSignature{*target, options.loss == LossKind::kCrossEntropy ? type.shape.back() : 0};
}

absl::Status CheckSameInterface(const Graph& found, const Graph& expected) {
  const auto differ = [](const std::string& what, const std::string& a, const std::string& b) {
    return a == b ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(what, ": found ", a, "; expected ", b));
  };
  RETURN_IF_ERROR(differ("mode", ModeName(found.mode()), ModeName(expected.mode())));
  RETURN_IF_ERROR(differ("inputs", Listed(found, found.inputs(), false), Listed(expected, expected.inputs(), false)));
  RETURN_IF_ERROR(differ("states", Listed(found, found.states(), true), Listed(expected, expected.states(), true)));
  return differ("outputs", ListedOutputs(found), ListedOutputs(expected));
}

absl::StatusOr<StepGraphs> BuildStep(const Graph& model, const StepOptions& options) {
  ASSIGN_OR_RETURN(const Forward forward, AddForward(model, options));
  const std::shared_ptr<Arena>& arena = forward.model.arena();
  ASSIGN_OR_RETURN(const std::vector<Value> weights, Trained(forward, options.frozen));
  ASSIGN_OR_RETURN(const std::vector<Value> gradients, Gradients(*arena, forward.loss.mean, weights));
  StepGraphs graphs;
  for (Value weight : weights) graphs.trained.push_back(arena->node(weight.node).name);
  std::vector<std::string> names;
  for (Value state : forward.model.states()) names.push_back(arena->node(state.node).name);
  for (Value input : forward.inputs) names.push_back(arena->node(input.node).name);
  ASSIGN_OR_RETURN(const OptimizerGraph update,
                   AddOptimizer(*arena, options.optimizer, weights, gradients, forward.loss.mean, names));
  std::vector<Output> outputs = {
      {forward.loss.mean, kLossResult}, {update.learning_rate, kRateResult}, {update.magnitudes, kMagnitudesResult}};
  if (update.gradient_norm.node >= 0) outputs.push_back({update.gradient_norm, kGradientNormResult});
  outputs.insert(outputs.end(), update.updates.begin(), update.updates.end());
  graphs.step = Graph(arena, forward.inputs, std::move(outputs));

  std::vector<Output> measured = {{forward.loss.samples, "samples"}};
  if (forward.loss.correct.node >= 0) measured.push_back({forward.loss.correct, "correct"});
  graphs.evaluation = CopyGraph(Graph(arena, forward.inputs, std::move(measured)));
  return graphs;
}

}  // namespace rewright
