#include "tools/program/models.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/device_factory.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/ir/random_tensors.h"
#include "core/onnx/onnx.h"
#include "tools/library/equal_models.h"
#include "tools/program/flags.h"
#include "tools/program/outputs.h"
#include "verifier/equal/joint_models.h"

namespace rewright {
void ShowLoss(const absl::Status& loss, Console& console) {
  if (!loss.ok()) console.Warning(absl::StrCat("what was measured is not kept: ", loss.message()));
}

void ShowNotes(const ImportedModel& model, const std::string& path, Console& console) {
  for (const std::string& note : model.notes) console.Note(absl::StrCat(path, ": ", note));
}

namespace {

// Gives dimensions of inputs that have no size the sizes of the tensors in the files.
absl::Status AddSizes(const ImportedModel& model, const InputFiles& files, std::map<std::string, int64_t>* dims) {
  for (size_t i = 0; i < model.dim_names.size(); ++i) {
    const std::vector<std::string>& names = model.dim_names[i];
    const auto file = files.find(model.graph.node(model.graph.inputs()[i].node).name);
    if (file == files.end() || absl::c_all_of(names, [](const std::string& name) { return name.empty(); })) continue;
    ASSIGN_OR_RETURN(const Tensor tensor, LoadTensorFile(file->second));
    const Shape& shape = tensor.type().shape;
    for (size_t axis = 0; axis < names.size() && shape.size() == names.size(); ++axis) {
      if (!names[axis].empty()) dims->try_emplace(names[axis], shape[axis]);
    }
  }
  return absl::OkStatus();
}

// As LoadModel does; the options get the sizes of the files. `map`: weights of external data stay in their files,
// which must not be written meanwhile.
absl::StatusOr<ImportedModel> Load(const std::string& path, const InputFiles& files, Console& console,
                                   ImportOptions* options, bool map) {
  ASSIGN_OR_RETURN(OnnxModel file, OnnxModel::Open(path, map));
  ASSIGN_OR_RETURN(ImportedModel model, file.Import(*options));
  const size_t given = options->dims.size();
  RETURN_IF_ERROR(AddSizes(model, files, &options->dims));
  if (options->dims.size() > given) {
    ASSIGN_OR_RETURN(model, file.Import(*options));
  }
  ShowNotes(model, path, console);
  return model;
}

// Says how inputs or outputs of one model that the other lacks may be matched, where one name alone is missing in each.
void SuggestNames(const Graph& a, const Graph& b, Console& console) {
  const auto suggest = [&](const char* of, const std::vector<std::string>& in_a, const std::vector<std::string>& in_b) {
    std::vector<std::string> missing_in_b, missing_in_a;
    absl::c_copy_if(in_a, std::back_inserter(missing_in_b),
                    [&](const std::string& name) { return !absl::c_linear_search(in_b, name); });
    absl::c_copy_if(in_b, std::back_inserter(missing_in_a),
                    [&](const std::string& name) { return !absl::c_linear_search(in_a, name); });
    if (missing_in_a.empty() || missing_in_b.empty()) return;
    const bool one = missing_in_a.size() == 1 && missing_in_b.size() == 1;
    console.Warning(absl::StrCat("names of ", of, " differ; --map ", one ? missing_in_b[0] : "NAME_IN_A", "=",
                                 one ? missing_in_a[0] : "NAME_IN_B", " matches two"));
  };
  suggest("inputs", InputNames(a), InputNames(b));
  suggest("outputs", OutputNames(a), OutputNames(b));
}

}  // namespace

absl::StatusOr<ImportedModel> LoadModel(const std::string& path, ImportOptions options, Console& console,
                                        const InputFiles& files) {
  return Load(path, files, console, &options, /*map=*/false);
}

absl::StatusOr<std::pair<ImportedModel, ImportedModel>> LoadPair(const std::string& a, const std::string& b,
                                                                 ImportOptions options, Console& console,
                                                                 const InputFiles& files) {
  options.other_dims = true;
  const std::map<std::string, std::string> of_b = std::exchange(options.names, {});
  ASSIGN_OR_RETURN(ImportedModel first, Load(a, files, console, &options, /*map=*/true));
  options.names = of_b;
  ASSIGN_OR_RETURN(ImportedModel second, Load(b, {}, console, &options, /*map=*/true));
  const auto names = [](const ImportedModel& model) {
    std::vector<std::string> list;
    for (const auto& [name, size] : model.dims) list.push_back(name);
    return list.empty() ? std::string("none") : absl::StrJoin(list, ", ");
  };
  for (const auto& [name, size] : options.dims) {
    if (first.dims.contains(name) || second.dims.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--dim: there is no symbolic dimension ", name, "; the inputs of ",
                                                   a, " have ", names(first), ", those of ", b, " ", names(second)));
  }
  SuggestNames(first.graph, second.graph, console);
  return std::pair(std::move(first), std::move(second));
}

absl::Status WriteModel(const Graph& graph, const ModelMetadata& metadata, const std::string& path,
                        const ExportOptions& options) {
  if (path.empty()) return absl::OkStatus();
  if (!IsStandardOutput(path)) return ExportOnnx(graph, metadata, path, options);
  ASSIGN_OR_RETURN(const std::string bytes, ExportOnnxBytes(graph, metadata, options));
  return WriteStandardOutput(bytes);
}

absl::StatusOr<std::vector<Tensor>> DrawInputs(const ImportedModel& model, uint64_t seed) {
  ASSIGN_OR_RETURN(std::vector<Tensor> inputs, RandomInputs(model.graph, seed));
  PutGiven(model.graph, model.metadata.defaults, &inputs);
  return inputs;
}

absl::StatusOr<std::vector<Tensor>> LoadInputs(const ImportedModel& model, const InputFiles& files, uint64_t seed) {
  const Graph& graph = model.graph;
  ASSIGN_OR_RETURN(std::vector<Tensor> inputs, DrawInputs(model, seed));
  std::vector<std::string> names;
  for (Value input : graph.inputs()) names.push_back(graph.node(input.node).name);
  for (const auto& [name, file] : files) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--input: the model has no input `", name, "`, its inputs are ",
                                                     absl::StrJoin(names, ", "), DidYouMean(name, names)));
    }
    absl::StatusOr<Tensor> tensor = LoadTensorFile(file);
    if (!tensor.ok()) return tensor.status();
    const size_t i = at - names.begin();
    if (tensor->type() != inputs[i].type()) {
      return absl::InvalidArgumentError(absl::StrCat("--input: ", file, " holds ", tensor->type().ToString(),
                                                     ", expected ", inputs[i].type().ToString(), " for input ", name));
    }
    inputs[i] = *std::move(tensor);
  }
  return inputs;
}

std::map<std::string, int> CountOperators(const Graph& graph) {
  std::map<std::string, int> counts;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op != nullptr) ++counts[node.op->name];
  }
  return counts;
}

Json ToJson(const std::map<std::string, int>& counts) {
  Json json = Json::object();
  for (const auto& [name, count] : counts) json[name] = count;
  return json;
}

std::string CountTable(const std::map<std::string, int>& counts) {
  std::vector<std::pair<std::string, int>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  std::vector<std::string> lines;
  for (const auto& [name, count] : rows) {
    lines.push_back(absl::StrFormat("  %-*s %6d", static_cast<int>(width), name, count));
  }
  return absl::StrJoin(lines, "\n");
}

std::vector<std::string> InputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (Value input : graph.inputs()) names.push_back(graph.node(input.node).name);
  return names;
}

std::vector<std::string> OutputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

std::vector<std::string> InterfaceDifferences(const ImportedModel& a, const ImportedModel& b) {
  std::vector<std::string> lines;
  const std::map<std::string, TensorType> of_a = InterfaceOf(a.graph);
  const std::map<std::string, TensorType> of_b = InterfaceOf(b.graph);
  for (const auto& [name, type] : of_a) {
    const auto at = of_b.find(name);
    if (at == of_b.end()) {
      lines.push_back(absl::StrCat(name, ": ", type.ToString(), " and missing"));
    } else if (at->second != type) {
      lines.push_back(absl::StrCat(name, ": ", type.ToString(), " and ", at->second.ToString()));
    }
  }
  for (const auto& [name, type] : of_b) {
    if (of_a.count(name) == 0) lines.push_back(absl::StrCat(name, ": missing and ", type.ToString()));
  }
  for (std::string& line : DefaultDifferences(a, b)) lines.push_back(std::move(line));
  return lines;
}

std::string OpaqueText(const ImportedModel& model) {
  constexpr size_t kShown = 3;
  std::vector<std::string> shown;
  for (const OpaqueNode& node : model.opaque) {
    if (shown.size() < kShown) shown.push_back(node.node);
  }
  return absl::StrCat(absl::StrJoin(shown, ", "), model.opaque.size() > kShown ? ", ..." : "");
}

Json OpaqueJson(const ImportedModel& model) {
  Json list = Json::array();
  for (const OpaqueNode& node : model.opaque) list.push_back({{"node", node.node}, {"why", node.why}});
  return list;
}

std::string BytesText(double bytes) {
  if (bytes < 1000) return absl::StrFormat("%.0f B", bytes);
  if (bytes < 1e6) return absl::StrFormat("%.1f kB", bytes / 1e3);
  if (bytes < 1e9) return absl::StrFormat("%.1f MB", bytes / 1e6);
  return absl::StrFormat("%.2f GB", bytes / 1e9);
}

Flag AddReading(CommandLine& line, std::map<std::string, int64_t>* dims, bool* fold_defaults) {
  line.AddSwitch("--fold-defaults", fold_defaults,
                 "Take inputs with a default for what it says (without: they stay inputs, and in the file)");
  return line.AddSizes("--dim", dims, "The size of a symbolic dimension (default 1)");
}

Flag AddMap(CommandLine& line, std::map<std::string, std::string>* names) {
  return line.AddPairs("--map", names, "An input or output of A and its name in B (repeatable)", "A=B",
                       /*second_is_key=*/true);
}

Flag AddDevice(CommandLine& line, std::string* name, bool with_reference) {
  const std::string expected =
      with_reference ? "cpu, cuda:N, onnxruntime, openvino or reference" : "cpu, cuda:N, onnxruntime or openvino";
  return line
      .Add("--device", name,
           with_reference ? "Where to run; reference is the interpreter (default cpu)"
                          : "The device to optimize for (default cpu); a GPU that is not there is known by its "
                            "times in --profile")
      .Check(
          [=](const std::string& found) {
            int64_t ordinal = 0;
            const bool cuda = found == "cuda" || (absl::StartsWith(found, "cuda:") &&
                                                  absl::SimpleAtoi(found.substr(5), &ordinal) && ordinal >= 0);
            const bool known =
                found == "cpu" || cuda || IsFileRuntime(found) || (with_reference && found == "reference");
            return known ? "" : absl::StrCat("found `", found, "`, expected ", expected);
          },
          with_reference ? "cpu|cuda:N|onnxruntime|openvino|reference" : "cpu|cuda:N|onnxruntime|openvino");
}

Flag AddPrecision(CommandLine& line, std::string* precision) {
  return line.AddChoice("--precision", precision, {"f32", "tf32", "f16", "bf16"}, "Of reals on a GPU (default f32)")
      .Map(PrecisionNamed);
}

}  // namespace rewright
