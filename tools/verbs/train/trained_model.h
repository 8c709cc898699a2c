// The model that a configuration of training names.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/onnx/onnx.h"
#include "runtime/training/config.h"
#include "runtime/training/step.h"
#include "tools/program/verb.h"

namespace rewright {

struct LoadedModel {
  TrainableModel model;
  ModelMetadata metadata;
};

// A built-in model, or one of a file, which is relative to the folder; notes of its import go to the console. Errors:
// those of the import, weights of which the file does not tell whether they are trained.
absl::StatusOr<LoadedModel> LoadTrainedModel(const TrainConfig& config, const std::string& folder, Console& console);

}  // namespace rewright
