// The loop of training: batches through the graph of a step, measurements between, checkpoints on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/prefetch.h"
#include "runtime/training/config.h"
#include "runtime/training/files/checkpoint.h"
#include "runtime/training/parallel/parallel_step.h"
#include "runtime/training/stored_forms.h"

namespace rewright {

// The loss and accuracy of the weights on the validation set.
struct ValidationScore {
  double loss = 0;
  std::optional<double> accuracy;  // the share of labels that are right
};

struct StepReport {
  int64_t step = 0;   // batches so far, this one counted
  int64_t epoch = 0;  // from 1
  double loss = 0;    // before the update
  double learning_rate = 0;
  double seconds = 0;                          // from waiting for the batch to the next weights
  std::optional<double> gradient_norm;         // where gradients are clipped
  bool skipped = false;                        // numbers were not finite and nothing was updated
  std::optional<ValidationScore> measurement;  // made after this step
};

// A step that one rank computes in one graph.
struct WholeStep {
  const Graph& step;
  const std::vector<std::string>& trained;  // the weights, in the order of the magnitudes
  const Graph& forward;                     // the model in training mode
  // The step of an equal forward pass. Errors: those of BuildStep.
  std::function<absl::StatusOr<Graph>(const Graph&)> derive;
};

struct TrainerOptions {
  std::string data_folder;        // what files of the configuration are relative to
  std::string checkpoint_folder;  // empty: no checkpoints
  bool resume = false;            // from the last checkpoint there, if there is one
  int threads = 1;                // noted in checkpoints: another number may round differently
  // The ranks that share the work of a step; outlive the trainer. Null: there is one. All ranks create their trainers
  // and make their calls together. Rank 0 alone writes checkpoints; all of them read them.
  Communicator* ranks = nullptr;
  SharingOptions sharing;  // how ranks share the work; a layout of one rank stands for dp of all
  // Gives an equal graph in place of that of a step, before it runs for the first time; null: it is run as derived. The
  // values of its states do not count.
  std::function<absl::StatusOr<Graph>(const Graph&)> rewrite = nullptr;
  // Used instead of `rewrite` for the graph of a micro-batch; called with that graph, the step and StepGraphs::updated.
  std::function<absl::StatusOr<Graph>(const Graph&, const Graph&, const std::vector<std::string>&)> rewrite_gradients =
      nullptr;
  // Used instead of `rewrite` if one rank computes the step in one graph; it may keep the step's states in other forms.
  std::function<absl::StatusOr<StoredStep>(const WholeStep&)> rewrite_whole = nullptr;
};

class Trainer {
 public:
  using Observer = std::function<void(const StepReport&)>;
  // Asked after every step; true ends the run, with a checkpoint.
  using Stop = std::function<bool()>;

  // The inputs of the model have batches of config.micro_batch(). The runner outlives the trainer. Programs are always
  // read from their printed form, so a resumed run and the one before it compile the same text. Errors: those of
  // BuildStep, Dataset::Open, ReadCheckpoint; data that do not fit the model; a checkpoint of another configuration
  // (the field is named); a folder with checkpoints where none is to be resumed, or that another run uses; fewer
  // micro-batches than ranks; a rank whose configuration, data, programs, weights or threads differ from rank 0's.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainConfig& config, TrainableModel model,
                                                         GraphRunner& runner, const TrainerOptions& options);

  // Up to the last step, or until `stop` (of any rank) or the validation loss ends it. Errors: those of the executables
  // and of checkpoints; numbers that are not finite, with the step and the tensor: weights are then as before that
  // step; a state that became no finite number, which is not saved; of ranks, those of Communicator::Exchange, and
  // weights that differ from rank 0's, where they are saved or at the end.
  absl::Status Run(const Observer& observer, const Stop& stop);

  int64_t position() const { return position_; }  // batches that were used
  int64_t total_steps() const { return total_steps_; }
  int64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  double last_loss() const { return last_loss_; }  // of the last step that was not skipped; NaN: there was none
  const std::string& ended_by() const { return ended_by_; }  // "steps", "patience", "stop"
  // For the user: what may be otherwise than in the run before.
  const std::vector<std::string>& notes() const { return notes_; }

  // The weights that are trained, and the other floating states of the model with the reason.
  const std::vector<std::string>& trained() const { return trained_; }
  const std::map<std::string, std::string>& left() const { return left_; }
  // The executables that this rank runs.
  const ParallelStep& running() const { return running_; }
  // The forms in which it keeps its states; empty: one by one.
  const std::vector<StoredForm>& stored_forms() const { return forms_; }
  // Bytes of the weights and of the optimizer's states.
  int64_t state_bytes() const;
  // Bytes that this rank sends in a step by its plan: all of them, but for a word to each other rank whether to stop.
  int64_t planned_bytes() const;

  // All weights of the model, under their names. This and what follows is called by all ranks together.
  absl::StatusOr<NamedTensors> Weights();
  // The SHA-256 of the safetensors file of the weights.
  absl::StatusOr<std::string> WeightsSha256();
  // The model with the present weights, at inference.
  absl::StatusOr<Graph> Trained();
  absl::StatusOr<ValidationScore> Measure();

 private:
  Trainer(const TrainConfig& config, const TrainerOptions& options, TrainableModel model, Dataset data,
          BatchOrder order);
  absl::Status Init(GraphRunner& runner);
  // Until Run ends no other run writes into the checkpoint folder.
  absl::Status TakeFolder();
  absl::Status RunSteps(const Observer& observer, const Stop& stop);
  absl::Status CheckRanks(const NamedTensors& states);
  // A graph of a step in place of the one that was derived.
  absl::Status Rewrite(const StepOptions& step, StepGraphs* graphs);
  // The step that was derived, and the values of its states, in the stored forms.
  absl::Status JoinStates(const Graph& derived, Graph* step, NamedTensors* states);
  // By names that the step has without stored forms, which AllStates lists.
  absl::StatusOr<Tensor> StateBy(absl::StatusOr<Tensor> (Executable::*read)(const std::string&),
                                 const std::string& name);
  std::vector<std::string> AllStates() const;
  // The weights as in Weights, each read by `read` of the running step: ReadState, or ViewState if they are not used
  // after the next step begins.
  absl::StatusOr<NamedTensors> WeightsBy(absl::StatusOr<Tensor> (Executable::*read)(const std::string&));
  // Gives what runs its states, and lets go of all else that has their values.
  absl::Status HandOver(const NamedTensors& states);
  // Takes over where the run stood, and adds its states to those of the graph.
  absl::Status Restore(const Checkpoint& checkpoint, const StepGraphs& graphs, NamedTensors* states);
  // The samples of the number-th batch that this rank computes on.
  absl::StatusOr<std::vector<Tensor>> MakeBatch(int64_t number) const;
  absl::StatusOr<StepReport> RunStep(Prefetcher& batches);
  // Looks at the magnitudes of a step. An error where numbers are not finite and the run is to stop then.
  absl::Status CheckMagnitudes(const std::string& result, const Tensor& magnitudes, StepReport* report) const;
  // An error where as many steps were skipped in a row as there are different batches.
  absl::Status CountSkipped(const StepReport& report);
  // The states that a step gives next values, which are to be finite.
  absl::Status CheckFinite(const NamedTensors& states) const;
  absl::Status Validate(StepReport* report);
  // For each of these batches of the validation set, one after the other: the sum of its samples' losses, and of the
  // shares of their labels that are right.
  absl::StatusOr<std::vector<double>> MeasureBatches(int64_t begin, int64_t end);
  // Checks that all ranks have the same weights.
  absl::Status CheckWeights(const std::string& what);
  absl::Status Save();
  bool IsDue(int64_t every_steps, int64_t every_epochs) const;

  const TrainConfig config_;
  const TrainerOptions options_;
  TrainableModel model_;  // without the values of weights that are trained, once these are in what runs
  const Dataset data_;
  const BatchOrder order_;
  std::optional<Dataset> validation_;

  const std::unique_ptr<Communicator> alone_;  // where there are no ranks
  Communicator& ranks_;
  const MeshCommunicators groups_;
  const std::vector<int64_t> own_;  // micro-batches of this rank

  std::optional<CheckpointLock> lock_;  // of the checkpoint folder, on rank 0
  nlohmann::ordered_json identity_;
  std::string program_, gradients_program_;
  Graph step_;
  std::vector<std::string> trained_, checked_;  // StepGraphs
  std::map<std::string, std::string> left_;
  std::map<std::string, DType> dtypes_;  // of the model's states
  std::vector<StoredForm> forms_;
  std::map<std::string, StoredPart> parts_;  // of these
  std::optional<int64_t> first_seed_;        // StepGraphs::first_seed
  ParallelStep running_;
  std::unique_ptr<Executable> evaluation_;
  std::vector<std::string> evaluated_;  // weights that the evaluation reads
  bool counts_right_ = false;           // the loss has labels

  int64_t total_steps_ = 0;
  int64_t position_ = 0;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  int64_t skipped_in_a_row_ = 0;
  std::optional<double> best_;  // smallest validation loss
  int64_t waited_ = 0;          // validations since
  std::string ended_by_;
  std::vector<std::string> notes_;
};

}  // namespace rewright
