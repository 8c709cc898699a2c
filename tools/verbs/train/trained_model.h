// The model that a configuration of training names.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/index/fit.h"
#include "core/onnx/onnx.h"
#include "runtime/training/config.h"
#include "runtime/training/step.h"
#include "tools/program/verb.h"

namespace rewright {

struct LoadedModel {
  TrainableModel model;
  ModelMetadata metadata;
  index::NamedSizes sizes;  // of its named dimensions; the batch of a built-in model is one
  index::NamedSizes given;  // those of them that the configuration gives
  // Reads the model again, at inference and at other sizes of these dimensions. Errors: those of the import.
  std::function<absl::StatusOr<Graph>(const index::NamedSizes&)> at;
};

// A built-in model, or one of a file, which is relative to the folder; notes of its import go to the console. Errors:
// those of the import, weights of which the file does not tell whether they are trained.
absl::StatusOr<LoadedModel> LoadTrainedModel(const TrainConfig& config, const std::string& folder, Console& console);

// Writes the trained graph, which is `loaded` with other weights, so that it runs at any size of its named dimensions;
// if the file cannot compute all that depends on them, at any size of those that the configuration does not give, else
// at the sizes of the training alone, with a note that tells why.
absl::Status WriteTrainedModel(const Graph& trained, const LoadedModel& loaded, const std::string& path,
                               Console& console);

}  // namespace rewright
