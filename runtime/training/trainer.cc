#include "runtime/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "runtime/comm/in_process.h"
#include "runtime/data/prefetch.h"
#include "runtime/distributed/generate.h"
#include "runtime/parallel/run_collective.h"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

// Samples of a data set that are read when ranks compare theirs.
constexpr int64_t kSamplesCompared = 4096;

std::string StepName(int64_t step) { return absl::StrCat("step ", step); }

// The columns of a data set, in the order of the graph's inputs, then the target.
absl::StatusOr<std::vector<Column>> ColumnsOf(const Graph& model, const TargetSignature& target, const DataConfig& data,
                                              const std::string& field, const std::string& folder) {
  std::set<std::string> missing;
  for (const auto& [name, column] : data.inputs) missing.insert(name);
  std::vector<Column> columns;
  for (Value input : model.inputs()) {
    const std::string& name = model.node(input.node).name;
    const auto found = data.inputs.find(name);
    if (found == data.inputs.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".inputs.", name, ": is missing; the model has that input, ", model.type(input).ToString()));
    }
    missing.erase(name);
    columns.push_back(
        {PathFrom(folder, found->second.file), model.type(input), found->second.scale, 0, found->second.tokens});
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".inputs.", *missing.begin(), ": the model has no such input"));
  }
  columns.push_back(
      {PathFrom(folder, data.target.file), target.type, data.target.scale, target.classes, data.target.tokens});
  return columns;
}

absl::Status CheckBatch(const Graph& model, const TrainConfig& config) {
  const int64_t batch = config.micro_batch();
  for (Value input : model.inputs()) {
    const TensorType& type = model.type(input);
    if (type.rank() == 0 || type.shape[0] != batch) {
      const bool whole = batch == config.batch;
      return absl::InvalidArgumentError(absl::StrCat(whole ? "data.batch" : "data.batch / data.micro_batches",
                                                     ": found ", batch, ", expected the size of axis 0 of input ",
                                                     model.node(input.node).name, " ", type.ToString()));
    }
  }
  return absl::OkStatus();
}

double SumOfFirst(const Tensor& tensor, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += tensor.At(static_cast<int64_t>(i));
  return sum;
}

// Reads a program in its printed form, with the values of its states. `expected` has its interface; `name` stands
// before errors.
absl::StatusOr<Graph> ReadProgram(const std::string& name, const std::string& text, const NamedTensors& states,
                                  const Graph& expected) {
  const auto graph = ParseGraph(text, states);
  if (!graph.ok()) return ErrorAt(name, graph.status());
  if (const absl::Status same = CheckSameInterface(*graph, expected); !same.ok()) return ErrorAt(name, same);
  return graph;
}

// Types of the states of a graph, by name, as tensors without values.
NamedTensors UnsetStatesOf(const Graph& graph) {
  NamedTensors states;
  for (Value state : graph.states()) {
    states[graph.node(state.node).name] = Tensor(graph.type(state), nullptr, nullptr);
  }
  return states;
}

// A number of a checkpoint's train.json.
absl::Status ReadInt(const Json& json, const std::string& name, int64_t* value) {
  const Json found = json.value(name, Json());
  if (!found.is_number_integer() || found < 0 || found > (int64_t{1} << 50)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint's ", name, ": found ", found.dump().substr(0, 40), ", expected a count"));
  }
  *value = found.get<int64_t>();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainConfig& config, TrainableModel model,
                                                         GraphRunner& runner, const TrainerOptions& given) {
  TrainerOptions options = given;
  RankLayout& layout = options.sharing.layout;
  if (options.ranks != nullptr && layout.dp * layout.group_size() == 1) layout.dp = options.ranks->size();
  RETURN_IF_ERROR(CheckBatch(model.inference, config));
  const int groups = options.sharing.layout.dp;
  if (groups > config.step.micro_batches) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.micro_batches: found ", config.step.micro_batches, ", expected at least ", groups,
                     ", one for each ", options.sharing.layout.group_size() > 1 ? "group of ranks" : "rank"));
  }
  ASSIGN_OR_RETURN(const TargetSignature signature, TargetOf(model.inference, config.step));
  ASSIGN_OR_RETURN(std::vector<Column> columns,
                   ColumnsOf(model.inference, signature, config.train, "data", options.data_folder));
  ASSIGN_OR_RETURN(Dataset data, Dataset::Open(std::move(columns)));
  if (data.size() < config.batch) {
    return absl::InvalidArgumentError(absl::StrCat("data.batch: found ", config.batch, ", expected at most the ",
                                                   data.size(), " samples that there are"));
  }
  const BatchOrder order(data.size(), config.batch,
                         config.shuffle ? std::optional<uint64_t>(config.seed) : std::nullopt);
  std::unique_ptr<Trainer> trainer(new Trainer(config, options, std::move(model), std::move(data), order));
  if (config.validation) {
    ASSIGN_OR_RETURN(columns, ColumnsOf(trainer->model_.inference, signature, *config.validation, "validation",
                                        options.data_folder));
    ASSIGN_OR_RETURN(trainer->validation_, Dataset::Open(std::move(columns)));
  }
  RETURN_IF_ERROR(trainer->Init(runner));
  return trainer;
}

Trainer::Trainer(const TrainConfig& config, const TrainerOptions& options, TrainableModel model, Dataset data,
                 BatchOrder order)
    : config_(config),
      options_(options),
      model_(std::move(model)),
      data_(std::move(data)),
      order_(order),
      alone_(options.ranks == nullptr ? std::move(InProcessRanks(1)[0]) : nullptr),
      ranks_(options.ranks == nullptr ? *alone_ : *options.ranks),
      groups_(ranks_, options.sharing.layout),
      own_(distributed::MicroBatchesOf(options.sharing.layout.zero, config.step.micro_batches,
                                       groups_.data_parallel().rank(), groups_.data_parallel().size())) {}

absl::Status Trainer::Init(GraphRunner& runner) {
  total_steps_ = config_.steps > 0 ? config_.steps : config_.epochs * batches_per_epoch();
  StepOptions step = config_.step;
  RateSchedule& schedule = step.optimizer.schedule;
  if (config_.cosine_to_end) schedule.steps = std::max<int64_t>(1, total_steps_ - schedule.warmup);
  identity_ = config_.identity;
  identity_["seed"] = config_.seed;
  identity_["samples"] = data_.size();
  if (config_.cosine_to_end) identity_["optimizer"]["schedule"]["steps"] = schedule.steps;

  const std::string& folder = options_.checkpoint_folder;
  RETURN_IF_ERROR(TakeFolder());
  ASSIGN_OR_RETURN(const bool there,
                   AnyRank(ranks_, "whether there is a checkpoint", !folder.empty() && HasCheckpoint(folder)));
  if (!options_.resume && there) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": holds checkpoints; --resume goes on from the last, another folder begins anew"));
  }
  std::optional<Checkpoint> checkpoint;
  if (there) {
    ASSIGN_OR_RETURN(checkpoint, ReadCheckpoint(folder));
  }
  if (!folder.empty() && ranks_.rank() == 0) {  // that it can be written is known before the work begins
    RETURN_IF_ERROR(CheckWritable(absl::StrCat(folder, "/latest")));
  }
  ASSIGN_OR_RETURN(StepGraphs graphs, BuildStep(model_, step));
  NamedTensors states = StatesOf(graphs.step);
  if (graphs.has_gradients()) {
    for (auto& [name, value] : StatesOf(graphs.gradients)) states[name] = value;
  }
  trained_ = graphs.trained;
  checked_ = graphs.checked;
  left_ = graphs.left;
  for (Value state : model_.training.states()) {
    dtypes_[model_.training.node(state.node).name] = model_.training.type(state).dtype;
  }
  first_seed_ = graphs.first_seed;
  const Graph derived = graphs.step;
  if (!checkpoint) RETURN_IF_ERROR(Rewrite(step, &graphs));
  program_ = PrintGraph(graphs.step);
  if (graphs.has_gradients()) gradients_program_ = PrintGraph(graphs.gradients);
  if (checkpoint) {
    const absl::Status restored = Restore(*checkpoint, graphs, &states);
    if (!restored.ok()) return ErrorAt(folder, restored);
  }
  RETURN_IF_ERROR(CheckRanks(states));
  const std::string name = checkpoint ? folder + ": the checkpoint's program" : "the program";
  Graph expected = derived;
  if (!forms_.empty()) {
    const absl::Status joined = JoinStates(derived, &expected, &states);
    if (!joined.ok()) return checkpoint ? ErrorAt(folder, joined) : joined;
  }
  // Graphs without the values that what runs of them will have: these would be a second copy as long as they live.
  NamedTensors in_graphs = UnsetStatesOf(expected);
  in_graphs.insert(states.begin(), states.end());  // of what nothing updates
  ASSIGN_OR_RETURN(step_, ReadProgram(name, program_, in_graphs, expected));
  Graph gradients;
  if (graphs.has_gradients()) {
    ASSIGN_OR_RETURN(gradients, ReadProgram(name + " of gradients", gradients_program_, in_graphs, graphs.gradients));
  }
  ASSIGN_OR_RETURN(running_, MakeParallelStep(step_, graphs.has_gradients() ? &gradients : nullptr, graphs.updated,
                                              config_, options_.sharing, groups_, runner));
  if (validation_) {
    const NamedTensors unset = UnsetStatesOf(graphs.evaluation);
    ASSIGN_OR_RETURN(const Graph evaluation, ParseGraph(PrintGraph(graphs.evaluation), unset));
    ASSIGN_OR_RETURN(evaluation_, runner.Prepare(evaluation));
    counts_right_ = evaluation.results().size() > 1;
    for (const auto& [name, value] : unset) evaluated_.push_back(name);
  }
  const absl::Status given = HandOver(states);
  return checkpoint && !given.ok() ? ErrorAt(folder, given) : given;
}

absl::Status Trainer::HandOver(const NamedTensors& states) {
  for (Value state : step_.states()) {
    const std::string& name = step_.node(state.node).name;
    RETURN_IF_ERROR(running_.step->WriteState(name, states.at(name)));
  }
  NamedTensors left = StatesOf(model_.inference);
  for (const std::string& name : AllStates()) {
    if (const auto found = left.find(name); found != left.end()) {
      found->second = Tensor(found->second.type(), nullptr, nullptr);
    }
  }
  ASSIGN_OR_RETURN(model_, ParseGraph(PrintGraph(model_.inference), left));
  return absl::OkStatus();
}

absl::Status Trainer::JoinStates(const Graph& derived, Graph* step, NamedTensors* states) {
  ASSIGN_OR_RETURN(*step, InStoredForms(derived, forms_, trained_));
  ASSIGN_OR_RETURN(*states, JoinedStates(*states, forms_));
  parts_ = PartsOf(derived, forms_);
  return absl::OkStatus();
}

absl::Status Trainer::Rewrite(const StepOptions& step, StepGraphs* graphs) {
  if (options_.rewrite_whole != nullptr && ranks_.size() == 1 && !graphs->has_gradients()) {
    const auto derive = [&](const Graph& forward) -> absl::StatusOr<Graph> {
      StepOptions options = step;
      options.order = trained_;
      ASSIGN_OR_RETURN(StepGraphs derived, BuildStep(TrainableModel(model_.inference, forward, model_.left), options));
      return std::move(derived.step);
    };
    ASSIGN_OR_RETURN(StoredStep found, options_.rewrite_whole({graphs->step, trained_, model_.training, derive}));
    graphs->step = std::move(found.graph);
    forms_ = std::move(found.forms);
    return absl::OkStatus();
  }
  if (options_.rewrite == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(graphs->step, options_.rewrite(graphs->step));
  if (!graphs->has_gradients()) return absl::OkStatus();
  if (options_.rewrite_gradients != nullptr) {
    ASSIGN_OR_RETURN(graphs->gradients, options_.rewrite_gradients(graphs->gradients, graphs->step, graphs->updated));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(graphs->gradients, options_.rewrite(graphs->gradients));
  return absl::OkStatus();
}

absl::Status Trainer::CheckRanks(const NamedTensors& states) {
  if (ranks_.size() == 1) return absl::OkStatus();
  std::string data = data_.Sha256Of(kSamplesCompared);
  if (validation_) data += validation_->Sha256Of(kSamplesCompared);
  return CheckSame(ranks_, "the start",
                   {{"the configuration", Sha256::HexOf(config_.sha256 + identity_.dump())},
                    {"the data", Sha256::HexOf(data)},
                    {"threads", absl::StrCat(options_.threads)},
                    {"the program", Sha256::HexOf(program_ + gradients_program_)},
                    {"the step", absl::StrCat(position_)},
                    {"the weights and optimizer state", SafetensorsSha256(states)}});
}

absl::Status Trainer::CheckWeights(const std::string& what) {
  if (ranks_.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string sha256, WeightsSha256());
  return CheckSame(ranks_, what, {{"the weights", sha256}});
}

absl::Status Trainer::Restore(const Checkpoint& checkpoint, const StepGraphs& graphs, NamedTensors* states) {
  const Json& progress = checkpoint.progress;
  const std::string difference = FirstDifference(identity_, progress.value("identity", Json()));
  if (!difference.empty()) return absl::InvalidArgumentError(difference);
  RETURN_IF_ERROR(ReadInt(progress, "position", &position_));
  RETURN_IF_ERROR(ReadInt(progress, "waited", &waited_));
  int64_t threads = 0;
  RETURN_IF_ERROR(ReadInt(progress, "threads", &threads));
  if (threads != options_.threads) {
    notes_.push_back(absl::StrCat("the run before had ", threads, " threads, this one has ", options_.threads,
                                  ": results may differ in the last bits"));
  }
  if (const Json best = progress.value("best", Json()); best.is_number()) best_ = best.get<double>();
  if (const Json loss = progress.value("last_loss", Json()); loss.is_number()) last_loss_ = loss.get<double>();
  std::map<std::string, TensorType> expected;
  for (const Graph* graph : std::initializer_list<const Graph*>{&model_.inference, &graphs.step}) {
    for (Value state : graph->states()) expected.emplace(graph->node(state.node).name, graph->type(state));
  }
  RETURN_IF_ERROR(CheckTensors(checkpoint, expected));
  for (const auto* tensors : {&checkpoint.weights, &checkpoint.optimizer}) {
    for (const auto& [name, tensor] : *tensors) (*states)[name] = tensor;
  }
  ASSIGN_OR_RETURN(forms_, ParseStoredForms(progress.value("stored_forms", Json())));
  if (!forms_.empty() && graphs.has_gradients()) {
    return absl::InvalidArgumentError("the checkpoint's stored_forms: found some, expected none with micro-batches");
  }
  if (!forms_.empty() && ranks_.size() > 1) {  // they cut weights one by one
    forms_.clear();
    notes_.push_back(
        "the run before kept weights joined, which one process does alone: the step is run as it was derived, and "
        "results may differ in the last bits");
    return absl::OkStatus();
  }
  program_ = checkpoint.program;
  gradients_program_ = checkpoint.gradients;
  return absl::OkStatus();
}

absl::Status Trainer::CheckMagnitudes(const std::string& result, const Tensor& magnitudes, StepReport* report) const {
  const bool next = result == kNextMagnitudesResult;
  CHECK(magnitudes.num_elements() == std::ssize(next ? checked_ : trained_) + (next ? 0 : 1))
      << magnitudes.type().ToString();
  for (int64_t i = 0; i < magnitudes.num_elements(); ++i) {
    const double found = magnitudes.At(i);
    const std::string& name = next ? checked_[i] : i == 0 ? "" : trained_[i - 1];
    double limit = std::numeric_limits<double>::infinity();
    if (!name.empty() && !next) limit = LargestGradient(dtypes_.at(name));
    if (found < limit) continue;
    report->skipped = true;
    if (config_.skip_non_finite) return absl::OkStatus();
    const std::string what = next ? "the next value of " + name : i == 0 ? "the loss" : "the gradient of " + name;
    const std::string is = std::isfinite(found) ? absl::StrCat("is too large (found ", found, ", expected less than ",
                                                               limit, ", whose square is finite)")
                                                : absl::StrCat("is not finite (found ", found, ")");
    return absl::FailedPreconditionError(
        absl::StrCat("step ", report->step, ": ", what, " ", is, "; the weights are as before this step"));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CountSkipped(const StepReport& report) {
  constexpr int64_t kMostInARow = 1000;
  skipped_in_a_row_ = report.skipped ? skipped_in_a_row_ + 1 : 0;
  const int64_t batches = std::min({batches_per_epoch(), total_steps_, kMostInARow});
  if (skipped_in_a_row_ < batches) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("step ", report.step, ": the last ", skipped_in_a_row_,
                   " steps were skipped, since their numbers are not finite (the loss of this one: ", report.loss,
                   "); expected a batch of the epoch that changes the weights"));
}

absl::Status Trainer::CheckFinite(const NamedTensors& states) const {
  std::set<std::string> updated;
  for (const Output& output : step_.outputs()) {
    if (output.updates.node >= 0) updated.insert(step_.node(output.updates.node).name);
  }
  for (const auto& [name, tensor] : states) {
    const auto part = parts_.find(name);
    if (!updated.contains(part == parts_.end() ? name : part->second.state)) continue;
    const int64_t at = FirstNotFinite(tensor);
    if (at < 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("after step ", position_, " ", name, " is not finite (found ",
                                                      tensor.At(at), " at element ", at,
                                                      "); no checkpoint of that step is written"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Trainer::MakeBatch(int64_t number) const {
  const int64_t size = config_.micro_batch(), count = static_cast<int64_t>(own_.size());
  const int64_t step = number / count, micro_batch = own_[number % count];
  ASSIGN_OR_RETURN(std::vector<Tensor> batch, data_.Gather(order_.Rows(step, micro_batch * size, size)));
  if (first_seed_) {
    for (const int64_t value : {*first_seed_ + step, micro_batch}) {
      batch.emplace_back(TensorType{DType::kInt64, {}});
      batch.back().SetInt(0, value);
    }
  }
  return batch;
}

absl::StatusOr<StepReport> Trainer::RunStep(Prefetcher& batches) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Tensor> results;
  const auto update = [&](const std::vector<Tensor>& inputs) { return running_.step->Run(inputs, &results); };
  if (running_.sums != nullptr) {
    RETURN_IF_ERROR(running_.sums->Run(
        StepName(position_ + 1), [&] { return batches.Next(); }, update));
  } else {
    ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, batches.Next());
    RETURN_IF_ERROR(update(inputs));
  }
  StepReport report;
  report.step = position_ + 1;
  report.epoch = position_ / batches_per_epoch() + 1;
  const std::vector<Output> outputs = step_.results();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = outputs[i].name;
    if (name == kLossResult) report.loss = results[i].At(0);
    if (name == kRateResult) report.learning_rate = results[i].At(0);
    if (name == kGradientNormResult) report.gradient_norm = results[i].At(0);
    if (name == kMagnitudesResult || name == kNextMagnitudesResult) {
      RETURN_IF_ERROR(CheckMagnitudes(name, results[i], &report));
    }
  }
  ++position_;
  if (!report.skipped) last_loss_ = report.loss;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

int64_t Trainer::planned_bytes() const {
  return BytesSentBy(*running_.step) + (running_.sums == nullptr ? 0 : running_.sums->bytes_sent());
}

int64_t Trainer::state_bytes() const {
  int64_t bytes = 0;
  for (Value state : step_.states()) bytes += step_.type(state).num_bytes();
  return bytes;
}

bool Trainer::IsDue(int64_t every_steps, int64_t every_epochs) const {
  return position_ % (every_steps > 0 ? every_steps : every_epochs * batches_per_epoch()) == 0;
}

absl::Status Trainer::Validate(StepReport* report) {
  ASSIGN_OR_RETURN(report->measurement, Measure());
  const double loss = report->measurement->loss;
  if (!best_ || loss < *best_) {
    best_ = loss;
    waited_ = 0;
  } else {
    ++waited_;
  }
  return absl::OkStatus();
}

absl::Status Trainer::TakeFolder() {
  if (options_.checkpoint_folder.empty() || ranks_.rank() != 0 || lock_) return absl::OkStatus();
  ASSIGN_OR_RETURN(CheckpointLock lock, CheckpointLock::Take(options_.checkpoint_folder));
  lock_.emplace(std::move(lock));
  return absl::OkStatus();
}

absl::Status Trainer::Run(const Observer& observer, const Stop& stop) {
  RETURN_IF_ERROR(TakeFolder());
  const absl::Status status = RunSteps(observer, stop);
  lock_.reset();
  return status;
}

absl::Status Trainer::RunSteps(const Observer& observer, const Stop& stop) {
  Prefetcher batches([this](int64_t number) { return MakeBatch(number); },
                     position_ * static_cast<int64_t>(own_.size()), static_cast<int>(config_.prefetch_threads));
  const auto out_of_patience = [this] { return config_.patience > 0 && waited_ >= config_.patience; };
  while (position_ < total_steps_ && !out_of_patience()) {
    ASSIGN_OR_RETURN(StepReport report, RunStep(batches));
    const bool last = position_ == total_steps_;
    if (validation_ && (last || IsDue(config_.validate_steps, config_.validate_epochs))) {
      RETURN_IF_ERROR(Validate(&report));
    }
    observer(report);
    RETURN_IF_ERROR(CountSkipped(report));
    ASSIGN_OR_RETURN(const bool stopped, AnyRank(ranks_, StepName(position_) + ", whether to stop", !last && stop()));
    const bool save = last || stopped || out_of_patience() || IsDue(config_.checkpoint_steps, 1);
    if (save && !options_.checkpoint_folder.empty()) RETURN_IF_ERROR(Save());
    if (stopped) {
      ended_by_ = "stop";
      return CheckWeights("the end");
    }
  }
  ended_by_ = position_ < total_steps_ ? "patience" : "steps";
  ASSIGN_OR_RETURN(const NamedTensors weights, WeightsBy(&Executable::ViewState));
  RETURN_IF_ERROR(CheckFinite(weights));
  return CheckWeights("the end");
}

absl::StatusOr<NamedTensors> Trainer::Weights() { return WeightsBy(&Executable::ReadState); }

absl::StatusOr<Tensor> Trainer::StateBy(absl::StatusOr<Tensor> (Executable::*read)(const std::string&),
                                        const std::string& name) {
  const auto part = parts_.find(name);
  if (part == parts_.end()) return (running_.step.get()->*read)(name);
  ASSIGN_OR_RETURN(const Tensor whole, (running_.step.get()->*read)(part->second.state));
  return Part(whole, part->second);
}

std::vector<std::string> Trainer::AllStates() const {
  std::set<std::string> joined;
  std::vector<std::string> names;
  for (const auto& [name, part] : parts_) {
    joined.insert(part.state);
    names.push_back(name);
  }
  for (Value state : step_.states()) {
    if (const std::string& name = step_.node(state.node).name; !joined.contains(name)) names.push_back(name);
  }
  return names;
}

absl::StatusOr<NamedTensors> Trainer::WeightsBy(absl::StatusOr<Tensor> (Executable::*read)(const std::string&)) {
  const std::vector<std::string> all = AllStates();
  const std::set<std::string> kept(all.begin(), all.end());
  NamedTensors weights;
  for (Value state : model_.inference.states()) {
    const std::string& name = model_.inference.node(state.node).name;
    if (kept.contains(name)) {
      ASSIGN_OR_RETURN(weights[name], StateBy(read, name));
    } else {
      weights[name] = *model_.inference.arena()->Elements(state.node);
    }
  }
  return weights;
}

absl::StatusOr<std::string> Trainer::WeightsSha256() {
  ASSIGN_OR_RETURN(const NamedTensors weights, WeightsBy(&Executable::ViewState));
  return SafetensorsSha256(weights);
}

absl::StatusOr<Graph> Trainer::Trained() {
  ASSIGN_OR_RETURN(const NamedTensors weights, Weights());
  return ParseGraph(PrintGraph(model_.inference), weights);
}

absl::StatusOr<ValidationScore> Trainer::Measure() {
  CHECK(evaluation_ != nullptr);
  ASSIGN_OR_RETURN(const NamedTensors weights, WeightsBy(&Executable::ViewState));
  for (const std::string& name : evaluated_) RETURN_IF_ERROR(evaluation_->WriteState(name, weights.at(name)));
  // Ranks share the batches, and add what these give in the order of the batches.
  const int64_t samples = validation_->size(), batches = (samples - 1) / config_.micro_batch() + 1;
  ASSIGN_OR_RETURN(const std::vector<double> own, MeasureBatches(batches * ranks_.rank() / ranks_.size(),
                                                                 batches * (ranks_.rank() + 1) / ranks_.size()));
  std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double));
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   AllGather(ranks_, StepName(position_) + ", the validation set", bytes));
  bytes = absl::StrJoin(all, "");
  std::vector<double> sums(bytes.size() / sizeof(double));
  std::memcpy(sums.data(), bytes.data(), bytes.size());
  ValidationScore measurement;
  double right = 0;
  for (size_t i = 0; i < sums.size(); i += 2) {
    measurement.loss += sums[i];
    right += sums[i + 1];
  }
  measurement.loss /= static_cast<double>(samples);
  if (counts_right_) measurement.accuracy = right / static_cast<double>(samples);
  return measurement;
}

absl::StatusOr<std::vector<double>> Trainer::MeasureBatches(int64_t begin, int64_t end) {
  std::vector<double> sums;
  for (int64_t number = begin; number < end; ++number) {
    const std::vector<int64_t> rows = RowsInOrder(validation_->size(), config_.micro_batch(), number);
    ASSIGN_OR_RETURN(const std::vector<Tensor> batch, validation_->Gather(rows));
    std::vector<Tensor> results;
    RETURN_IF_ERROR(evaluation_->Run(batch, &results));
    sums.push_back(SumOfFirst(results[0], rows.size()));
    sums.push_back(counts_right_ ? SumOfFirst(results[1], rows.size()) : 0);
  }
  return sums;
}

absl::Status Trainer::Save() {
  RETURN_IF_ERROR(CheckWeights(StepName(position_) + ", the checkpoint"));
  Checkpoint checkpoint;
  ASSIGN_OR_RETURN(checkpoint.weights, WeightsBy(&Executable::ViewState));
  for (const std::string& name : AllStates()) {
    if (checkpoint.weights.contains(name)) continue;
    ASSIGN_OR_RETURN(checkpoint.optimizer[name], StateBy(&Executable::ViewState, name));
  }
  RETURN_IF_ERROR(CheckFinite(checkpoint.weights));
  RETURN_IF_ERROR(CheckFinite(checkpoint.optimizer));
  checkpoint.program = program_;
  checkpoint.gradients = gradients_program_;
  checkpoint.progress = {{"position", position_}, {"steps", total_steps_}, {"last_loss", last_loss_},
                         {"best", nullptr},       {"waited", waited_},     {"threads", options_.threads},
                         {"identity", identity_}};
  if (best_) checkpoint.progress["best"] = *best_;
  if (!forms_.empty()) checkpoint.progress["stored_forms"] = StoredFormsJson(forms_);
  // The others wait, however long that takes.
  const auto write = [&]() -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(
        WriteCheckpoint(options_.checkpoint_folder, position_, checkpoint, static_cast<int>(config_.checkpoint_keep)));
    return std::string();
  };
  return FromRankZero(ranks_, StepName(position_) + ", the checkpoint", write).status();
}

}  // namespace rewright
