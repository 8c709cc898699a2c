// Imports models, runs them in the reference interpreter and exports them again, for the Python tests of this folder.
//
// One job per line of standard input, fields separated by tabs:
//   MODEL  OUTPUT_DIR  EXPORTED_MODEL  DIMS  INPUT_FILE...
// "-" leaves a field away: no run, no export, no sizes of symbolic dimensions (else N=1,M=2). Beside EXPORTED_MODEL
// comes kept_EXPORTED_MODEL: all that reads an input is another graph there, and still written with the nodes of the
// model (ExportOptions::source). Inputs come in the order of the model's. Outputs are written as
// OUTPUT_DIR/0.npy, 1.npy, ... One line per job answers:
//   ok NUMBER_OF_OUTPUTS NODES   |   unsupported MESSAGE   |   error MESSAGE
// With --operators it prints the operators that can be imported, each with its first opset and the newest version of
// its definition that is known.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/onnx/onnx.h"
#include "core/tensor/npy.h"

namespace rewright {
namespace {

absl::StatusOr<ImportOptions> OptionsOf(const std::string& dims) {
  ImportOptions options;
  options.keep_source = true;
  options.fold_defaults = true;  // data are of the other inputs
  if (dims == "-") return options;
  const std::vector<std::string> items = absl::StrSplit(dims, ',');
  for (const std::string& item : items) {
    const std::vector<std::string> pair = absl::StrSplit(item, '=');
    int64_t size = 0;
    if (pair.size() != 2 || !absl::SimpleAtoi(pair[1], &size)) {
      return absl::InvalidArgumentError(absl::StrCat("bad size ", item));
    }
    options.dims[pair[0]] = size;
  }
  return options;
}

absl::Status RunGraph(const Graph& graph, const std::vector<std::string>& files, const std::string& directory) {
  if (files.size() != graph.inputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat(files.size(), " inputs for ", graph.inputs().size()));
  }
  absl::flat_hash_map<std::string, Tensor> inputs;
  for (size_t i = 0; i < files.size(); ++i) {
    auto tensor = LoadTensorFile(files[i]);
    if (!tensor.ok()) return tensor.status();
    inputs[graph.node(graph.inputs()[i].node).name] = *tensor;
  }
  auto outputs = InterpretGraph(graph, inputs);
  if (!outputs.ok()) return outputs.status();
  for (size_t i = 0; i < outputs->size(); ++i) {
    if (absl::Status status = SaveNpy(absl::StrCat(directory, "/", i, ".npy"), (*outputs)[i]); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// Negates inputs twice: the results are the same, and every value that reads an input changes.
absl::StatusOr<Graph> OnNegatedInputs(const Graph& graph) {
  ValueMap negated;
  for (Value input : graph.inputs()) {
    const DType dtype = graph.type(input).dtype;
    if (!graph.contains(input.node) || IsInteger(dtype)) continue;
    const std::string op = dtype == DType::kBool ? "logical_not" : "neg";
    ASSIGN_OR_RETURN(Value value, graph.arena()->Apply(op, {input}));
    ASSIGN_OR_RETURN(negated[input], graph.arena()->Apply(op, {value}));
  }
  return ReplaceValues(graph, negated);
}

absl::Status ExportKept(const ImportedModel& model, const std::string& path) {
  ASSIGN_OR_RETURN(const Graph negated, OnNegatedInputs(model.graph));
  return ExportOnnx(negated, model.metadata, path, {.source = model.source});
}

absl::StatusOr<std::string> RunJob(const std::vector<std::string>& fields) {
  if (fields.size() < 4) return absl::InvalidArgumentError("a job has four fields and the inputs");
  auto options = OptionsOf(fields[3]);
  if (!options.ok()) return options.status();
  auto model = ImportOnnx(fields[0], *options);
  if (!model.ok()) return model.status();
  if (fields[2] != "-") {
    RETURN_IF_ERROR(ExportOnnx(model->graph, model->metadata, fields[2]));
    const std::filesystem::path exported = fields[2];
    RETURN_IF_ERROR(ExportKept(*model, exported.parent_path() / ("kept_" + exported.filename().string())));
  }
  if (fields[1] != "-") {
    const std::vector<std::string> files(fields.begin() + 4, fields.end());
    if (absl::Status status = RunGraph(model->graph, files, fields[1]); !status.ok()) return status;
  }
  return absl::StrCat(model->graph.outputs().size(), "\t", model->graph.num_runtime_nodes());
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--operators") {
    for (const rewright::OnnxOperatorVersions& op : rewright::OnnxOperators()) {
      std::cout << op.name << '\t' << op.first_opset << '\t' << op.newest_version << '\n';
    }
    return 0;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    auto answer = rewright::RunJob(absl::StrSplit(line, '\t'));
    std::string text = answer.ok() ? *answer : std::string(answer.status().message());
    std::replace(text.begin(), text.end(), '\n', ' ');
    const char* verdict = answer.ok() ? "ok" : absl::IsUnimplemented(answer.status()) ? "unsupported" : "error";
    std::cout << verdict << '\t' << text << std::endl;
  }
  return 0;
}
