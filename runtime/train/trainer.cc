#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "runtime/data/prefetch.h"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

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
    columns.push_back({PathFrom(folder, found->second.file), model.type(input), found->second.scale});
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".inputs.", *missing.begin(), ": the model has no such input"));
  }
  columns.push_back({PathFrom(folder, data.target.file), target.type, data.target.scale, target.classes});
  return columns;
}

absl::Status CheckBatch(const Graph& model, int64_t batch) {
  for (Value input : model.inputs()) {
    const TensorType& type = model.type(input);
    if (type.rank() == 0 || type.shape[0] != batch) {
      return absl::InvalidArgumentError(absl::StrCat("data.batch: found ", batch,
                                                     ", expected the size of axis 0 of input ",
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

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainConfig& config, const Graph& model,
                                                         GraphRunner& runner, const TrainerOptions& options) {
  RETURN_IF_ERROR(CheckBatch(model, config.batch));
  ASSIGN_OR_RETURN(const TargetSignature signature, TargetOf(model, config.step));
  ASSIGN_OR_RETURN(std::vector<Column> columns, ColumnsOf(model, signature, config.train, "data", options.data_folder));
  ASSIGN_OR_RETURN(Dataset data, Dataset::Open(std::move(columns)));
  if (data.size() < config.batch) {
    return absl::InvalidArgumentError(absl::StrCat("data.batch: found ", config.batch, ", expected at most the ",
                                                   data.size(), " samples that there are"));
  }
  const BatchOrder order(data.size(), config.batch, config.seed);
  std::unique_ptr<Trainer> trainer(new Trainer(config, options, model, std::move(data), order));
  if (config.validation) {
    ASSIGN_OR_RETURN(columns, ColumnsOf(model, signature, *config.validation, "validation", options.data_folder));
    ASSIGN_OR_RETURN(trainer->validation_, Dataset::Open(std::move(columns)));
  }
  RETURN_IF_ERROR(trainer->Init(runner));
  return trainer;
}

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
  if (!options_.resume && !folder.empty() && HasCheckpoint(folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": holds checkpoints of a run; expected none where nothing is to be resumed"));
  }
  std::optional<Checkpoint> checkpoint;
  if (options_.resume) {
    ASSIGN_OR_RETURN(checkpoint, ReadCheckpoint(folder));
  }
  if (!folder.empty()) {  // that it can be written is known before the work begins
    RETURN_IF_ERROR(MakeFolder(folder));
    RETURN_IF_ERROR(CheckWritable(absl::StrCat(folder, "/latest")));
  }
  ASSIGN_OR_RETURN(StepGraphs graphs, BuildStep(model_, step));
  if (options_.rewrite != nullptr && !checkpoint) {
    ASSIGN_OR_RETURN(graphs.step, options_.rewrite(graphs.step));
  }
  trained_ = graphs.trained;
  NamedTensors states;
  for (Value state : graphs.step.states()) {
    states[graphs.step.node(state.node).name] = *graphs.step.arena()->Elements(state.node);
  }
  program_ = PrintGraph(graphs.step);
  if (checkpoint) {
    const absl::Status restored = Restore(*checkpoint, graphs.step, &states);
    if (!restored.ok()) return ErrorAt(folder, restored);
  }
  const auto parsed = ParseGraph(program_, states);
  const std::string name = checkpoint ? folder + ": the checkpoint's program" : "the program";
  if (!parsed.ok()) return ErrorAt(name, parsed.status());
  step_ = *parsed;
  if (const absl::Status same = CheckSameInterface(step_, graphs.step); !same.ok()) return ErrorAt(name, same);
  ASSIGN_OR_RETURN(executable_, runner.Prepare(step_));
  if (validation_) {
    ASSIGN_OR_RETURN(evaluation_, runner.Prepare(graphs.evaluation));
    for (Value state : graphs.evaluation.states()) evaluated_.push_back(graphs.evaluation.node(state.node).name);
  }
  return absl::OkStatus();
}

absl::Status Trainer::Restore(const Checkpoint& checkpoint, const Graph& step, NamedTensors* states) {
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
  for (const auto* tensors : {&checkpoint.weights, &checkpoint.optimizer}) {
    for (const auto& [name, tensor] : *tensors) (*states)[name] = tensor;
  }
  for (Value state : step.states()) {
    const std::string& name = step.node(state.node).name;
    if (!checkpoint.weights.contains(name) && !checkpoint.optimizer.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat("the checkpoint has no tensor ", name));
    }
  }
  program_ = checkpoint.program;
  return absl::OkStatus();
}

absl::Status Trainer::CheckFinite(const Tensor& magnitudes, StepReport* report) const {
  CHECK(magnitudes.num_elements() == static_cast<int64_t>(trained_.size()) + 1) << magnitudes.type().ToString();
  for (int64_t i = 0; i < magnitudes.num_elements(); ++i) {
    if (std::isfinite(magnitudes.At(i))) continue;
    report->skipped = true;
    if (config_.skip_non_finite) return absl::OkStatus();
    const std::string what = i == 0 ? "the loss" : "the gradient of " + trained_[static_cast<size_t>(i) - 1];
    return absl::FailedPreconditionError(absl::StrCat("step ", report->step, ": ", what, " is not finite (found ",
                                                      magnitudes.At(i), "); the weights are as before this step"));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> Trainer::RunStep(const std::vector<Tensor>& batch) {
  std::vector<Tensor> results;
  RETURN_IF_ERROR(executable_->Run(batch, &results));
  StepReport report;
  report.step = position_ + 1;
  report.epoch = position_ / batches_per_epoch() + 1;
  const std::vector<Output> outputs = step_.results();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = outputs[i].name;
    if (name == kLossResult) report.loss = results[i].At(0);
    if (name == kRateResult) report.learning_rate = results[i].At(0);
    if (name == kGradientNormResult) report.gradient_norm = results[i].At(0);
    if (name == kMagnitudesResult) RETURN_IF_ERROR(CheckFinite(results[i], &report));
  }
  ++position_;
  last_loss_ = report.loss;
  return report;
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

absl::Status Trainer::Run(const Observer& observer, const Stop& stop) {
  Prefetcher batches([this](int64_t number) { return data_.Gather(order_.Rows(number)); }, position_,
                     static_cast<int>(config_.prefetch_threads));
  const auto out_of_patience = [this] { return config_.patience > 0 && waited_ >= config_.patience; };
  while (position_ < total_steps_ && !out_of_patience()) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
    ASSIGN_OR_RETURN(StepReport report, RunStep(batch));
    const bool last = position_ == total_steps_;
    if (validation_ && (last || IsDue(config_.validate_steps, config_.validate_epochs))) {
      RETURN_IF_ERROR(Validate(&report));
    }
    observer(report);
    const bool stopped = !last && stop();
    const bool save = last || stopped || out_of_patience() || IsDue(config_.checkpoint_steps, 1);
    if (save && !options_.checkpoint_folder.empty()) RETURN_IF_ERROR(Save());
    if (stopped) {
      ended_by_ = "stop";
      return absl::OkStatus();
    }
  }
  ended_by_ = position_ < total_steps_ ? "patience" : "steps";
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> Trainer::Weights() {
  std::set<std::string> kept;
  for (Value state : step_.states()) kept.insert(step_.node(state.node).name);
  NamedTensors weights;
  for (Value state : model_.states()) {
    const std::string& name = model_.node(state.node).name;
    if (kept.contains(name)) {
      ASSIGN_OR_RETURN(weights[name], executable_->ReadState(name));
    } else {
      weights[name] = *model_.arena()->Elements(state.node);
    }
  }
  return weights;
}

absl::StatusOr<std::string> Trainer::WeightsSha256() {
  ASSIGN_OR_RETURN(const NamedTensors weights, Weights());
  return SafetensorsSha256(weights);
}

absl::StatusOr<Graph> Trainer::Trained() {
  ASSIGN_OR_RETURN(const NamedTensors weights, Weights());
  return ParseGraph(PrintGraph(model_), weights);
}

absl::StatusOr<Measurement> Trainer::Measure() {
  CHECK(evaluation_ != nullptr);
  ASSIGN_OR_RETURN(const NamedTensors weights, Weights());
  for (const std::string& name : evaluated_) RETURN_IF_ERROR(evaluation_->WriteState(name, weights.at(name)));
  Measurement sums;
  const int64_t samples = validation_->size();
  for (int64_t number = 0; number * config_.batch < samples; ++number) {
    const std::vector<int64_t> rows = RowsInOrder(samples, config_.batch, number);
    ASSIGN_OR_RETURN(const std::vector<Tensor> batch, validation_->Gather(rows));
    std::vector<Tensor> results;
    RETURN_IF_ERROR(evaluation_->Run(batch, &results));
    sums.loss += SumOfFirst(results[0], rows.size());
    if (results.size() > 1) sums.accuracy = sums.accuracy.value_or(0) + SumOfFirst(results[1], rows.size());
  }
  sums.loss /= static_cast<double>(samples);
  if (sums.accuracy) *sums.accuracy /= static_cast<double>(samples);
  return sums;
}

absl::Status Trainer::Save() {
  Checkpoint checkpoint;
  ASSIGN_OR_RETURN(checkpoint.weights, Weights());
  for (Value state : step_.states()) {
    const std::string& name = step_.node(state.node).name;
    if (checkpoint.weights.contains(name)) continue;
    ASSIGN_OR_RETURN(checkpoint.optimizer[name], executable_->ReadState(name));
  }
  checkpoint.program = program_;
  checkpoint.progress = {{"position", position_}, {"steps", total_steps_}, {"last_loss", last_loss_},
                         {"best", nullptr},       {"waited", waited_},     {"threads", options_.threads},
                         {"identity", identity_}};
  if (best_) checkpoint.progress["best"] = *best_;
  return WriteCheckpoint(options_.checkpoint_folder, position_, checkpoint, static_cast<int>(config_.checkpoint_keep));
}

}  // namespace rewright
