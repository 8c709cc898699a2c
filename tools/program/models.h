// Common work of verbs with models: they read them, feed them, run them somewhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/onnx/onnx.h"
#include "tools/library/engine.h"
#include "tools/library/written_model.h"
#include "tools/program/console.h"
#include "tools/program/flags.h"

namespace rewright {

// Shows the notes of the importer.
void ShowNotes(const ImportedModel& model, const std::string& path, Console& console);

// A warning where measurements could not be kept (Engine::profile_loss).
void ShowLoss(const absl::Status& loss, Console& console);
// Files of --input by the name of the input.
using InputFiles = std::map<std::string, std::string>;
// Reads a model; the notes of the importer are shown. Symbolic dimensions that the options give no size have those of
// the tensors in `files`. Errors also for --dim names that the model does not have.
absl::StatusOr<ImportedModel> LoadModel(const std::string& path, ImportOptions options, Console& console,
                                        const InputFiles& files = {});
// Two models that are compared, by the same options, apart from ImportOptions::names, which are those of B. Errors also
// for sizes of dimensions that neither has.
absl::StatusOr<std::pair<ImportedModel, ImportedModel>> LoadPair(const std::string& a, const std::string& b,
                                                                 ImportOptions options, Console& console,
                                                                 const InputFiles& files = {});

// To the file, with its weights beside it where they need that; "-" is standard output; nowhere where it is empty.
absl::Status WriteModel(const Graph& graph, const ModelMetadata& metadata, const std::string& path,
                        const ExportOptions& options = {});
// With every weight under its name and once, though some are read transposed: models that are trained further.
inline const ExportOptions kWeightsAsTheyAre = {.fold_weights = false};

// Inputs of a model: those named in `files` (.npy or .pb) from there, the others by their defaults, else random.
// Errors: a name that is no input, a file with a tensor of another type than the input's.
absl::StatusOr<std::vector<Tensor>> LoadInputs(const ImportedModel& model, const InputFiles& files, uint64_t seed);
// The same without files.
absl::StatusOr<std::vector<Tensor>> DrawInputs(const ImportedModel& model, uint64_t seed);

// Operator applications by operator name.
std::map<std::string, int> CountOperators(const Graph& graph);
Json ToJson(const std::map<std::string, int>& counts);

// A table of names and counts, two spaces before each line.
std::string CountTable(const std::map<std::string, int>& counts);

std::vector<std::string> InputNames(const Graph& graph);
std::vector<std::string> OutputNames(const Graph& graph);

// The differences between inputs and outputs of the same name, a line each: "input x: f32[1,3] and missing". Defaults
// of inputs are compared, too.
std::vector<std::string> InterfaceDifferences(const ImportedModel& a, const ImportedModel& b);

// The nodes that are kept as they were read: the first few by name, for a line; and all of them.
std::string OpaqueText(const ImportedModel& model);
Json OpaqueJson(const ImportedModel& model);

// "12.3 MB" and so on, in powers of 1000.
std::string BytesText(double bytes);

// --dim and --fold-defaults: how a model is read.
Flag AddReading(CommandLine& line, std::map<std::string, int64_t>* dims, bool* fold_defaults);

// --map: names of inputs and outputs of B by those of A, into ImportOptions::names.
Flag AddMap(CommandLine& line, std::map<std::string, std::string>* names);

// --device: "cpu", "cuda" or "cuda:N", or "reference" where the verb only runs models.
Flag AddDevice(CommandLine& line, std::string* name, bool with_reference);
// --precision, of reals on a GPU.
Flag AddPrecision(CommandLine& line, std::string* precision);

}  // namespace rewright
