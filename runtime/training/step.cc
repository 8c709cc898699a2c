#include "runtime/training/step.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/autodiff/autodiff.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/compare.h"
#include "runtime/training/term.h"

namespace rewright {
namespace {

absl::StatusOr<Value> Prediction(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  const std::vector<Output> results = graph.results();
  for (const Output& output : results) {
    if (output.name == name || (name.empty() && results.size() == 1)) return output.value;
    names.push_back(output.name);
  }
  return absl::InvalidArgumentError(
      name.empty() ? absl::StrCat("the model has the outputs ", absl::StrJoin(names, ", "),
                                  "; which one is the loss of? (model.output)")
                   : absl::StrCat("the model has no output ", name, "; it has ", absl::StrJoin(names, ", ")));
}

std::string NameOf(const Graph& graph, Value leaf) { return graph.node(leaf.node).name; }

std::string FreeName(std::string name, const std::vector<std::string>& taken) {
  while (std::find(taken.begin(), taken.end(), name) != taken.end()) name += "_";
  return name;
}

std::vector<std::string> NamesOf(const Arena& arena, const std::vector<Value>& leaves) {
  std::vector<std::string> names;
  for (Value leaf : leaves) names.push_back(arena.node(leaf.node).name);
  return names;
}

// A copy of the model for training, with its loss.
struct Forward {
  Graph model;
  std::vector<Value> inputs;  // and the target
  LossGraph loss;

  // The names of all leaves.
  std::vector<std::string> Names() const {
    std::vector<Value> leaves = inputs;
    for (Value state : model.states()) leaves.push_back(state);
    return NamesOf(*model.arena(), leaves);
  }
};

absl::StatusOr<Forward> AddForward(const Graph& model, const StepOptions& options) {
  Forward forward{CopyGraph(model, Mode::kTraining)};
  Arena& arena = *forward.model.arena();
  forward.inputs = forward.model.inputs();
  ASSIGN_OR_RETURN(const Value prediction, Prediction(forward.model, options.output));
  ASSIGN_OR_RETURN(const TargetSignature signature, TargetOf(model, options));
  const std::vector<std::string> taken = forward.Names();
  ASSIGN_OR_RETURN(const Value target, arena.AddInput(FreeName("target", taken), signature.type));
  forward.inputs.push_back(target);
  forward.loss = AddLoss(arena, options.loss, prediction, target);
  return forward;
}

// Elements that were given and are no finite number.
absl::Status CheckFinite(const std::string& name, const Tensor* elements) {
  if (elements == nullptr || elements->data() == nullptr) return absl::OkStatus();
  const int64_t at = FirstNotFinite(*elements);
  if (at < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the weight ", name, ": found ", elements->At(at), " at element ", at,
                                                 ", expected finite numbers (model.frozen leaves it as it is)"));
}

// The weights to train, those of StepOptions::order in that order, then others in the order of the graph; `left` are
// the other floating states.
absl::StatusOr<std::vector<Value>> Trained(const Forward& forward, const StepOptions& options,
                                           std::map<std::string, std::string>* left) {
  const std::vector<std::string>& frozen = options.frozen;
  std::set<Value> updated;
  for (const Output& output : forward.model.outputs()) updated.insert(output.updates);
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
    if (!IsFloating(node.outputs[0].dtype)) continue;
    if (is_frozen) {
      (*left)[node.name] = "model.frozen";
    } else if (updated.contains(state)) {
      (*left)[node.name] = "an average that the model itself keeps";
    } else if (!left->contains(node.name)) {
      RETURN_IF_ERROR(CheckFinite(node.name, loss.arena()->Elements(state.node)));
      trained.push_back(state);
    }
  }
  for (Value state : forward.model.states()) {
    if (loss.contains(state.node) || !IsFloating(loss.type(state).dtype)) continue;
    left->try_emplace(NameOf(forward.model, state),
                      updated.contains(state) ? "an average that the model itself keeps" : "the loss does not read it");
  }
  for (size_t i = 0; i < frozen.size(); ++i) {
    if (!fits[i]) return absl::InvalidArgumentError(absl::StrCat("model.frozen: `", frozen[i], "` fits no weight"));
  }
  if (trained.empty()) return absl::InvalidArgumentError("the model has no weight to train");
  const auto place = [&](Value weight) {
    return std::find(options.order.begin(), options.order.end(), loss.node(weight.node).name) - options.order.begin();
  };
  std::stable_sort(trained.begin(), trained.end(), [&](Value a, Value b) { return place(a) < place(b); });
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

// The loss and the gradients by element type, in their order: each is one vector, the loss first in the first one.
struct Packed {
  DType dtype;
  std::vector<size_t> parts;  // 0: the loss, else the number of a weight, from 1

  std::string name() const { return absl::StrCat("gradients.", DTypeName(dtype)); }
};

std::vector<Packed> Pack(const Arena& arena, const std::vector<Value>& values) {
  std::vector<Packed> packs;
  for (size_t i = 0; i < values.size(); ++i) {
    const DType dtype = arena.type(values[i]).dtype;
    const auto found =
        std::find_if(packs.begin(), packs.end(), [&](const Packed& pack) { return pack.dtype == dtype; });
    if (found == packs.end()) {
      packs.push_back({dtype, {i}});
    } else {
      found->parts.push_back(i);
    }
  }
  return packs;
}

// The vectors of a micro-batch as results; `values` are the loss and the gradients.
std::vector<Output> AddPacked(Arena& arena, const std::vector<Packed>& packs, const std::vector<Value>& values) {
  std::vector<Output> outputs;
  for (const Packed& pack : packs) {
    std::vector<Term> parts;
    for (size_t i : pack.parts) {
      const Term part(arena, values[i]);
      parts.push_back(part.Reshape({part.type().num_elements()}));
    }
    outputs.push_back({Apply(ops::Concat(), parts, {{"axis", int64_t{0}}}).value(), pack.name()});
  }
  return outputs;
}

// Inputs for the sums over `count` micro-batches of the values that were packed, in the order of the packs, and the
// means.
absl::StatusOr<std::vector<Value>> AddMeans(Arena& arena, const std::vector<Packed>& packs,
                                            const std::vector<TensorType>& types,
                                            const std::vector<std::string>& weights, int64_t count,
                                            const std::vector<std::string>& taken, std::vector<Value>* inputs) {
  std::vector<Value> means(types.size());
  for (const Packed& pack : packs) {
    for (size_t i : pack.parts) {
      const std::string name = i == 0 ? kLossSum : SumOfGradients(weights[i - 1]);
      ASSIGN_OR_RETURN(const Value input, arena.AddInput(FreeName(name, taken), types[i]));
      inputs->push_back(input);
      means[i] = (Term(arena, input) / static_cast<double>(count)).value();
    }
  }
  return means;
}

// The values that the update reads, all of one arena.
struct Updated {
  std::vector<Value> weights, gradients;
  Value loss;
  std::vector<Output> next;  // values that the model gives its states
};

// The update by the optimizer, its results and next values; those that the model gives its states are kept from
// numbers that are not finite, like the weights.
absl::StatusOr<Graph> AddUpdate(const Forward& forward, const OptimizerOptions& options,
                                const std::shared_ptr<Arena>& arena, const std::vector<Value>& inputs,
                                const Updated& updated, std::vector<std::string>* checked) {
  ASSIGN_OR_RETURN(const OptimizerGraph update, AddOptimizer(*arena, options, updated.weights, updated.gradients,
                                                             updated.loss, forward.Names(), updated.next));
  *checked = update.checked;
  std::vector<Output> outputs = {
      {updated.loss, kLossResult}, {update.learning_rate, kRateResult}, {update.magnitudes, kMagnitudesResult}};
  if (update.next_magnitudes.node >= 0) outputs.push_back({update.next_magnitudes, kNextMagnitudesResult});
  if (update.gradient_norm.node >= 0) outputs.push_back({update.gradient_norm, kGradientNormResult});
  outputs.insert(outputs.end(), update.updates.begin(), update.updates.end());
  return Graph(arena, inputs, std::move(outputs));
}

// The states to which the model gives next values.
struct ModelStates {
  std::optional<Value> seed;    // of random numbers and of nothing else but its own next value, where there are masks
  std::vector<Output> average;  // the others: each takes the mean of the next values that micro-batches give
};

// Errors: others that have no mean.
absl::StatusOr<ModelStates> StatesOf(const Graph& model, int64_t micro_batches) {
  ModelStates states;
  for (const Output& output : model.outputs()) {
    const Value state = output.updates;
    if (state.node < 0) continue;
    const std::vector<int>& users = model.users(model.index(state.node));
    const bool is_seed = !states.seed && std::all_of(users.begin(), users.end(), [&](int user) {
      const NodeId id = model.nodes()[user];
      return id == output.value.node || model.node(id).op == ops::RandomUniform();
    });
    if (is_seed) {
      states.seed = state;
    } else if (IsFloating(model.type(state).dtype)) {
      states.average.push_back(output);
    } else {
      return absl::UnimplementedError(absl::StrCat(
          "data.micro_batches: found ", micro_batches, ", expected 1: a step of the model changes its state ",
          NameOf(model, state), " ", model.type(state).ToString(), ", of which micro-batches have no mean"));
    }
  }
  return states;
}

// The graph with the seed as an input, and masks that are parts of those of all micro-batches.
absl::StatusOr<Graph> WithPartsOfMasks(const Graph& graph, Value seed) {
  const auto arena = std::make_shared<Arena>(graph.mode());
  ValueMap copies;
  std::vector<Value> inputs;
  const TensorType number{DType::kInt64, {}};
  for (Value input : graph.inputs()) {
    ASSIGN_OR_RETURN(copies[input], arena->AddInput(NameOf(graph, input), graph.type(input)));
    inputs.push_back(copies[input]);
  }
  ASSIGN_OR_RETURN(copies[seed], arena->AddInput(NameOf(graph, seed), number));
  ASSIGN_OR_RETURN(const Value micro_batch, arena->AddInput(kMicroBatchInput, number));
  inputs.insert(inputs.end(), {copies[seed], micro_batch});
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (copies.contains(Value{id, 0})) continue;
    if (node.op == ops::RandomUniform() && node.operands[0] == seed) {
      const auto count = static_cast<double>(node.outputs[0].num_elements());
      const Value first = (Term(*arena, micro_batch) * count).value();
      ASSIGN_OR_RETURN(copies[Value(id, 0)], arena->Apply("random_uniform_from", {copies[seed], first}, node.attrs));
      continue;
    }
    RETURN_IF_ERROR(CopyNode(*graph.arena(), id, *arena, &copies));
  }
  std::vector<Output> outputs = graph.outputs();
  for (Output& output : outputs) output.value = copies.at(output.value);
  return Graph(arena, std::move(inputs), std::move(outputs));
}

// The graphs of a step in micro-batches.
absl::Status AddMicroBatches(const Forward& forward, const StepOptions& options, const std::vector<Value>& weights,
                             const std::vector<Value>& gradients, StepGraphs* graphs) {
  const std::shared_ptr<Arena>& arena = forward.model.arena();
  ASSIGN_OR_RETURN(const ModelStates own, StatesOf(forward.model, options.micro_batches));
  const std::optional<Value>& seed = own.seed;
  std::vector<Value> values = {forward.loss.mean}, changed = weights;
  values.insert(values.end(), gradients.begin(), gradients.end());
  for (const Output& average : own.average) {
    values.push_back(average.value);
    changed.push_back(average.updates);
  }
  const std::vector<Packed> packs = Pack(*arena, values);
  graphs->gradients = CopyGraph(Graph(arena, forward.inputs, AddPacked(*arena, packs, values)));
  if (seed) {
    const std::string& name = NameOf(forward.model, *seed);
    for (Value state : graphs->gradients.states()) {
      if (NameOf(graphs->gradients, state) != name) continue;
      graphs->first_seed = arena->Elements(seed->node)->AtInt(0);
      ASSIGN_OR_RETURN(graphs->gradients, WithPartsOfMasks(graphs->gradients, state));
      break;
    }
  }

  const auto update = std::make_shared<Arena>(Mode::kTraining);
  std::vector<Value> states, inputs;
  for (Value leaf : changed) {
    ASSIGN_OR_RETURN(const Value state, update->AddState(arena->node(leaf.node).name, *arena->Elements(leaf.node)));
    states.push_back(state);
  }
  const std::vector<std::string> taken = forward.Names();
  graphs->updated = NamesOf(*arena, changed);
  ASSIGN_OR_RETURN(const std::vector<Value> means, AddMeans(*update, packs, arena->types(values), graphs->updated,
                                                            options.micro_batches, taken, &inputs));
  const auto count = static_cast<std::ptrdiff_t>(weights.size());
  Updated updated{{states.begin(), states.begin() + count}, {means.begin() + 1, means.begin() + 1 + count}, means[0]};
  for (size_t k = weights.size(); k < states.size(); ++k) {
    updated.next.push_back({means[k + 1], graphs->updated[k], states[k]});
  }
  ASSIGN_OR_RETURN(graphs->step, AddUpdate(forward, options.optimizer, update, inputs, updated, &graphs->checked));
  return absl::OkStatus();
}

}  // namespace

std::string SumOfGradients(const std::string& weight) { return absl::StrCat("gradients.", weight); }

absl::StatusOr<Graph> Unpacked(const Graph& gradients, const Graph& step) {
  Arena& arena = *gradients.arena();
  std::vector<Output> outputs;
  const std::vector<Value> inputs = step.inputs();
  for (const Output& packed : gradients.outputs()) {
    const Node& node = gradients.node(packed.value.node);
    const std::vector<Value> parts = node.op == ops::Concat() ? node.operands : std::vector<Value>();
    const int64_t count = gradients.type(packed.value).num_elements();
    size_t part = 0;
    for (int64_t at = 0; outputs.size() < inputs.size();) {
      const Value input = inputs[outputs.size()];
      const TensorType& type = step.type(input);
      if (type.dtype != gradients.type(packed.value).dtype || at + type.num_elements() > count) break;
      Value value;
      if (part < parts.size() && arena.type(parts[part]).num_elements() == type.num_elements()) {
        value = parts[part];
        const Node& made = arena.node(value.node);
        if (made.op == ops::Reshape() && arena.type(made.operands[0]) == type) value = made.operands[0];
      } else {
        const Attrs range = {{"starts", std::vector<int64_t>{at}},
                             {"stops", std::vector<int64_t>{at + type.num_elements()}}};
        ASSIGN_OR_RETURN(value, arena.Apply("slice", {packed.value}, range));
        part = parts.size();
      }
      ++part;
      if (arena.type(value) != type) value = Term(arena, value).Reshape(type.shape).value();
      outputs.push_back({value, NameOf(step, input)});
      at += type.num_elements();
    }
  }
  if (outputs.size() != inputs.size()) {
    return absl::InternalError(
        absl::StrCat("the graph of a micro-batch has ", outputs.size(), " results of ", inputs.size()));
  }
  return Graph(gradients.arena(), gradients.inputs(), std::move(outputs));
}

std::vector<std::string> StatesOfInputs(const Graph& step, const std::vector<std::string>& updated) {
  std::map<std::string, DType> dtypes;
  for (Value state : step.states()) dtypes[NameOf(step, state)] = step.type(state).dtype;
  std::vector<bool> taken(updated.size(), false);
  std::vector<std::string> states;
  // By element type, in their order (AddMeans).
  for (size_t k = 1; k < step.inputs().size(); ++k) {
    size_t i = 0;
    while (taken[i] || dtypes.at(updated[i]) != step.type(step.inputs()[k]).dtype) ++i;
    taken[i] = true;
    states.push_back(updated[i]);
  }
  return states;
}

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

absl::StatusOr<StepGraphs> BuildStep(const TrainableModel& model, const StepOptions& options) {
  ASSIGN_OR_RETURN(const Forward forward, AddForward(model.training, options));
  const std::shared_ptr<Arena>& arena = forward.model.arena();
  StepGraphs graphs;
  graphs.left = model.left;
  ASSIGN_OR_RETURN(const std::vector<Value> weights, Trained(forward, options, &graphs.left));
  ASSIGN_OR_RETURN(const std::vector<Value> gradients, Gradients(*arena, forward.loss.mean, weights));
  graphs.trained = NamesOf(*arena, weights);
  if (options.micro_batches > 1) {
    RETURN_IF_ERROR(AddMicroBatches(forward, options, weights, gradients, &graphs));
  } else {
    Updated updated{weights, gradients, forward.loss.mean, {}};
    for (const Output& output : forward.model.outputs()) {
      if (output.updates.node >= 0) updated.next.push_back(output);
    }
    ASSIGN_OR_RETURN(graphs.step,
                     AddUpdate(forward, options.optimizer, arena, forward.inputs, updated, &graphs.checked));
  }

  ASSIGN_OR_RETURN(const Forward measured, AddForward(model.inference, options));
  std::vector<Output> measurements = {{measured.loss.samples, "samples"}};
  if (measured.loss.correct.node >= 0) measurements.push_back({measured.loss.correct, "correct"});
  graphs.evaluation = CopyGraph(Graph(measured.model.arena(), measured.inputs, std::move(measurements)));
  return graphs;
}

}  // namespace rewright
