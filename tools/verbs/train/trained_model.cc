#include "tools/verbs/train/trained_model.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "tools/program/models.h"

namespace rewright {
namespace {

// Returns a function that tells whether a name fits one of the patterns.
std::function<bool(const std::string&)> AnyOf(const std::vector<std::string>& patterns) {
  return [patterns](const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return MatchesPattern(pattern, name); });
  };
}

// Nothing that may be a parameter is left without a word: the user says what it is.
absl::Status CheckDecided(const ImportedModel& model, const std::function<bool(const std::string&)>& is_frozen) {
  std::vector<std::string> sentences;
  for (const auto& [name, sentence] : model.undecided) {
    if (!is_frozen(name)) sentences.push_back(sentence);
  }
  if (sentences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(sentences, "; "), ". Expected the name in model.trained or model.frozen"));
}

}  // namespace

absl::StatusOr<LoadedModel> LoadTrainedModel(const TrainConfig& config, const std::string& folder, Console& console) {
  if (config.built_in) return LoadedModel{MakeModel(*config.built_in, config.micro_batch(), config.seed), {}};
  const std::string path = PathFrom(folder, config.onnx);
  ASSIGN_OR_RETURN(OnnxModel file, OnnxModel::Open(path));
  ImportOptions options;
  options.training = OnnxTraining::kOff;
  options.seed = config.seed;
  options.trains = AnyOf(config.trains);
  options.shares = AnyOf(config.shared);
  options.parts = AnyOf(config.parted);
  ASSIGN_OR_RETURN(const ImportedModel open, file.Import(options));
  for (const std::string& note : open.weight_notes) console.Warning(absl::StrCat(path, ": ", note));
  RETURN_IF_ERROR(ErrorAt(path, CheckDecided(open, AnyOf(config.step.frozen))));
  // The size of the batch, where the file leaves it open.
  options.dims = config.dims;
  for (const std::vector<std::string>& names : open.dim_names) {
    if (!names.empty() && !names[0].empty()) options.dims.try_emplace(names[0], config.micro_batch());
  }
  ASSIGN_OR_RETURN(const ImportedModel inference, file.Import(options));
  for (const std::string& note : inference.notes) console.Note(absl::StrCat(path, ": ", note));
  options.training = OnnxTraining::kStep;
  ASSIGN_OR_RETURN(const ImportedModel training, file.Import(options));
  return LoadedModel{{inference.graph, training.graph, training.left}, inference.metadata};
}

}  // namespace rewright
