#include "tools/verbs/train/trained_model.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"
#include "runtime/training/files/safetensors.h"
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

constexpr char kBatch[] = "batch";

LoadedModel BuiltIn(const TrainConfig& config) {
  const auto make = [built_in = *config.built_in, seed = config.seed](int64_t batch) {
    return MakeModel(built_in, batch, seed);
  };
  return {.model = make(config.micro_batch()),
          .metadata = {},
          .sizes = {{kBatch, config.micro_batch()}},
          .given = {},
          .at = [make](const index::NamedSizes& sizes) { return make(sizes.at(kBatch)).inference; }};
}

// The trained graph at the samples of the sizes with these names. Errors: the model cannot be read there; its file has
// changed since it was loaded.
absl::StatusOr<std::shared_ptr<NamedGraph>> Samples(const Graph& trained, const LoadedModel& loaded,
                                                    const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const Graph again, loaded.at(loaded.sizes));
  if (PrintGraph(again) != PrintGraph(trained)) return absl::FailedPreconditionError("its file has changed meanwhile");
  const std::vector<index::NamedSizes> samples = index::SampleSizes(names, loaded.sizes);
  auto named = std::make_shared<NamedGraph>(names, samples, std::vector<SizeRelation>());
  for (const index::NamedSizes& sizes : samples) {
    const absl::StatusOr<Graph> read = loaded.at(sizes);
    if (!read.ok()) return absl::FailedPreconditionError(read.status().message());
    ASSIGN_OR_RETURN(const Graph sample, ParseGraph(PrintGraph(*read), StatesOf(trained)));
    named->samples.push_back({sample, nullptr});
  }
  return named;
}

absl::Status WriteNamed(const Graph& trained, const LoadedModel& loaded, const std::vector<std::string>& names,
                        const std::string& path) {
  ExportOptions options = kWeightsAsTheyAre;
  ASSIGN_OR_RETURN(options.named, Samples(trained, loaded, names));
  RETURN_IF_ERROR(CheckNames(loaded.metadata, options));
  return WriteModel(trained, loaded.metadata, path, options);
}

}  // namespace

absl::StatusOr<LoadedModel> LoadTrainedModel(const TrainConfig& config, const std::string& folder, Console& console) {
  if (config.built_in) return BuiltIn(config);
  const std::string path = PathFrom(folder, config.onnx);
  ASSIGN_OR_RETURN(OnnxModel file, OnnxModel::Open(path));
  ImportOptions options;
  options.training = OnnxTraining::kOff;
  options.seed = config.seed;
  options.dims = config.dims;
  options.trains = AnyOf(config.trains);
  options.shares = AnyOf(config.shared);
  options.parts = AnyOf(config.parted);
  ASSIGN_OR_RETURN(const ImportedModel open, file.Import(options));
  for (const std::string& note : open.weight_notes) console.Warning(absl::StrCat(path, ": ", note));
  RETURN_IF_ERROR(ErrorAt(path, CheckDecided(open, AnyOf(config.step.frozen))));
  // The size of the batch, where the file leaves it open.
  for (const std::vector<std::string>& names : open.dim_names) {
    if (!names.empty() && !names[0].empty()) options.dims.try_emplace(names[0], config.micro_batch());
  }
  ASSIGN_OR_RETURN(const ImportedModel inference, file.Import(options));
  for (const std::string& note : inference.notes) console.Note(absl::StrCat(path, ": ", note));
  options.training = OnnxTraining::kStep;
  ASSIGN_OR_RETURN(const ImportedModel training, file.Import(options));
  const auto at = [path, options](const index::NamedSizes& sizes) -> absl::StatusOr<Graph> {
    ImportOptions sized = options;
    sized.training = OnnxTraining::kOff;
    sized.dims = sizes;
    ASSIGN_OR_RETURN(const ImportedModel model, ImportOnnx(path, sized));
    return model.graph;
  };
  return LoadedModel{.model = {inference.graph, training.graph, training.left},
                     .metadata = inference.metadata,
                     .sizes = inference.dims,
                     .given = config.dims,
                     .at = at};
}

absl::Status WriteTrainedModel(const Graph& trained, const LoadedModel& loaded, const std::string& path,
                               Console& console) {
  std::vector<std::string> all, open;
  for (const auto& [name, size] : loaded.sizes) {
    all.push_back(name);
    if (!loaded.given.contains(name)) open.push_back(name);
  }
  absl::Status named;
  for (const std::vector<std::string>& names : {all, open}) {
    if (names.empty()) continue;
    named = WriteNamed(trained, loaded, names, path);
    if (!absl::IsFailedPrecondition(named)) return named;
  }
  if (!named.ok()) {
    console.Note(absl::StrCat(path, ": runs at ", absl::StrJoin(loaded.sizes, ", ", absl::PairFormatter(" = ")),
                              " alone: ", named.message()));
  }
  return WriteModel(trained, loaded.metadata, path, kWeightsAsTheyAre);
}

}  // namespace rewright
