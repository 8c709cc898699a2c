// rewright inspect MODEL: what a model consists of.

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/index/cost_features.h"
#include "runtime/reference_runner.h"
#include "search/optimize/weight_bytes.h"
#include "tools/program/flags.h"
#include "tools/program/models.h"
#include "tools/program/verb.h"

namespace rewright {
namespace {

struct InspectFlags {
  std::string model;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
};

Json TypeJson(const std::string& name, const TensorType& type) {
  return {{"name", name}, {"type", DTypeName(type.dtype)}, {"shape", type.shape}};
}

void ReportContents(const OnnxContents& contents, Console& console) {
  std::string opsets;
  Json json = Json::object();
  for (const auto& [domain, version] : contents.metadata.opsets) {
    absl::StrAppend(&opsets, opsets.empty() ? "" : ", ", domain.empty() ? "ai.onnx" : domain, " ", version);
    json[domain.empty() ? "ai.onnx" : domain] = version;
  }
  const std::string& producer = contents.metadata.producer_name;
  int nodes = 0;
  for (const auto& [name, count] : contents.operators) nodes += count;
  console.Result(absl::StrCat("file:        ", Counted(static_cast<size_t>(nodes), "node"), " of opset ", opsets,
                              producer.empty() ? "" : ", written by ", producer));
  console.json()["onnx_nodes"] = nodes;
  console.json()["opset"] = std::move(json);
  console.json()["onnx_operators"] = ToJson(contents.operators);
  console.json()["unsupported"] = ToJson(contents.unsupported);
}

void ReportGraph(const Graph& graph, Console& console) {
  Json inputs = Json::array();
  Json outputs = Json::array();
  for (Value input : graph.inputs()) {
    const std::string& name = graph.node(input.node).name;
    console.Result(absl::StrCat("input:       ", name, ": ", graph.type(input).ToString()));
    inputs.push_back(TypeJson(name, graph.type(input)));
  }
  for (const Output& output : graph.outputs()) {
    console.Result(absl::StrCat("output:      ", output.name, ": ", graph.type(output.value).ToString()));
    outputs.push_back(TypeJson(output.name, graph.type(output.value)));
  }
  const GraphFeatures features = FeaturesOf(graph);
  const int64_t weight_bytes = BytesOfElements(graph);
  const int64_t peak = PeakLiveBytes(graph);
  const std::map<std::string, int> counts = CountOperators(graph);
  console.Result(absl::StrFormat("nodes:       %d, of which %d run with every input", graph.num_applications(),
                                 graph.num_runtime_nodes()));
  console.Result(absl::StrFormat("work:        %.3f G FLOP", features.flops / 1e9));
  console.Result(absl::StrFormat("parameters:  %.3f M, %s", static_cast<double>(features.parameters) / 1e6,
                                 BytesText(static_cast<double>(weight_bytes))));
  console.Result(absl::StrFormat("activations: %s at once, node by node", BytesText(static_cast<double>(peak))));
  console.Result(absl::StrCat("operators:\n", CountTable(counts)));
  Json& json = console.json();
  json["inputs"] = std::move(inputs);
  json["outputs"] = std::move(outputs);
  json["nodes"] = graph.num_applications();
  json["runtime_nodes"] = graph.num_runtime_nodes();
  json["flops"] = features.flops;
  json["bytes"] = features.bytes;
  json["parameters"] = features.parameters;
  json["weight_bytes"] = weight_bytes;
  json["peak_activation_bytes"] = peak;
  json["operators"] = ToJson(counts);
}

void ReportOpaque(const ImportedModel& model, Console& console) {
  console.json()["opaque"] = OpaqueJson(model);
  if (model.opaque.empty()) return;
  console.Result("opaque, run by onnxruntime alone:");
  for (const OpaqueNode& node : model.opaque) console.Result(absl::StrCat("  ", node.node, ": ", node.why));
}

absl::StatusOr<Answer> Inspect(const InspectFlags& flags, Session& session) {
  Console& console = session.console;
  absl::StatusOr<OnnxContents> contents = InspectOnnx(flags.model);
  if (!contents.ok()) return contents.status();
  absl::StatusOr<ImportedModel> model =
      LoadModel(flags.model, {.dims = flags.dims, .fold_defaults = flags.fold_defaults, .keep_unknown = true}, console);
  if (!model.ok() && !contents->unsupported.empty()) {
    // There is no graph to speak of, but all the file says can be told.
    ReportContents(*contents, console);
    console.Result(absl::StrCat("operators of the file:\n", CountTable(contents->operators)));
    console.Result(absl::StrCat("not supported:\n", CountTable(contents->unsupported)));
    console.Result(absl::StrCat("in the way:  ", model.status().message()));
    console.json()["in_the_way"] = model.status().message();
    return Answer::kYes;
  }
  if (!model.ok()) return model.status();
  ReportContents(*contents, console);
  ReportGraph(model->graph, console);
  ReportOpaque(*model, console);
  return Answer::kYes;
}

}  // namespace

Action DeclareInspect(CommandLine& line) {
  auto flags = std::make_shared<InspectFlags>();
  line.Add("model", &flags->model, "An ONNX file").Required().Type("MODEL.onnx");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  return [flags](Session& session) { return Inspect(*flags, session); };
}

}  // namespace rewright
