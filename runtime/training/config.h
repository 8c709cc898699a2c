// The configuration of `rewright train`: a JSON object, described in docs/training.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "runtime/data/dataset.h"
#include "runtime/training/model.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/step.h"

namespace rewright {

struct ColumnConfig {
  std::string file;  // relative to the folder of the configuration
  double scale = 1;
  std::optional<TokenWindows> tokens;  // the file is a text or a list of tokens
};

// Arrays of aligned samples.
struct DataConfig {
  std::map<std::string, ColumnConfig> inputs;  // by input of the model
  ColumnConfig target;
};

struct TrainConfig {
  // Exactly one of `built_in` and `onnx` is given. Values in a file of `weights` replace the model's own.
  std::optional<BuiltInModel> built_in;
  std::string onnx;
  std::map<std::string, int64_t> dims;  // of the ONNX model's symbolic dimensions
  // Patterns of initializers that are trained whatever they look like; that are one weight where they look like
  // several, and the reverse.
  std::vector<std::string> trains, shared, parted;
  std::string weights;

  // Weights that are cut where ranks compute together (--layout tp=N): patterns and axes.
  StateAxes places;

  StepOptions step;
  // A cosine schedule that names no number of steps ends with the run.
  bool cosine_to_end = false;

  DataConfig train;
  std::optional<DataConfig> validation;
  int64_t batch = 1;    // of a step
  bool shuffle = true;  // every epoch has an order of its own; otherwise all have that of the files
  // The size of the batch that a graph takes at once: the batch, or one of its micro-batches (step.micro_batches).
  int64_t micro_batch() const { return batch / step.micro_batches; }
  int64_t prefetch_threads = 1;
  uint64_t seed = 1;

  int64_t steps = 0;  // 0: `epochs` of them
  int64_t epochs = 0;

  int64_t validate_steps = 0;  // 0: after every `validate_epochs`
  int64_t validate_epochs = 1;
  int64_t patience = 0;  // validations without a smaller loss that end the run; 0: none do

  int64_t checkpoint_steps = 0;  // 0: after every epoch
  int64_t checkpoint_keep = 3;

  bool skip_non_finite = false;  // a step whose numbers are not finite is passed over; otherwise it ends the run

  // The fields that decide what a run computes, for the comparison with those of a checkpoint: all but how long it is,
  // what is measured on the way, what is kept and how ranks share the work.
  nlohmann::ordered_json identity;
  std::string sha256;  // of all fields, whatever the order of an object's
};

// Errors name the field, what was found and what was expected:
//   optimizer.learning_rate: found "fast", expected a number from 0 to 1e+06
absl::StatusOr<TrainConfig> ParseTrainConfig(const std::string& text);

// The first field in which the two differ: "batch: found 32, the checkpoint has 16"; empty where there is none.
std::string FirstDifference(const nlohmann::ordered_json& found, const nlohmann::ordered_json& checkpoint,
                            const std::string& path = "");

}  // namespace rewright
