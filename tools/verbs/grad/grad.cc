// rewright grad MODEL: the graph of a model's gradients.

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/autodiff/autodiff.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "substitutions/lowering.h"
#include "tools/program/flags.h"
#include "tools/program/models.h"
#include "tools/program/verb.h"

namespace rewright {
namespace {

struct GradFlags {
  std::string model;
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  std::string loss;
  std::string by = "states";
  std::string output;
  bool derived = false;
};

absl::StatusOr<Value> LossOf(const Graph& graph, const std::string& name) {
  const std::vector<std::string> names = OutputNames(graph);
  for (const Output& output : graph.outputs()) {
    if (output.name == name || (name.empty() && names.size() == 1)) return output.value;
  }
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", names.size(), " outputs (",
                                                   absl::StrJoin(names, ", "), "): name one by --loss"));
  }
  return absl::NotFoundError(absl::StrCat("the model has no output `", name, "`", DidYouMean(name, names)));
}

// The values that the loss is differentiated by, with their names.
std::vector<std::pair<std::string, Value>> LeavesOf(const Graph& graph, LeafKind kind) {
  std::vector<std::pair<std::string, Value>> leaves;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.leaf == kind && IsFloating(node.outputs[0].dtype)) leaves.emplace_back(node.name, Value{id, 0});
  }
  return leaves;
}

// The operators that came of differentiation.
std::set<std::string> DerivedOps(const Graph& graph) {
  absl::flat_hash_set<const OpDef*> declared(AllOps().begin(), AllOps().end());
  std::set<std::string> names;
  for (NodeId id : graph.nodes()) {
    const OpDef* op = graph.node(id).op;
    if (op != nullptr && !declared.contains(op)) names.insert(op->name);
  }
  return names;
}

absl::StatusOr<Answer> Grad(const GradFlags& flags, Session& session) {
  Console& console = session.console;
  ASSIGN_OR_RETURN(
      const ImportedModel model,
      LoadModel(flags.model, {.differentiated = true, .dims = flags.dims, .fold_defaults = flags.fold_defaults},
                console));
  ASSIGN_OR_RETURN(Value loss, LossOf(model.graph, flags.loss));
  Arena& arena = *model.graph.arena();
  const TensorType type = arena.type(loss);
  std::vector<Output> outputs;
  for (const Output& output : model.graph.outputs()) {
    if (output.value == loss) outputs.push_back(output);
  }
  const LeafKind kind = flags.by == "inputs" ? LeafKind::kInput : LeafKind::kState;
  const auto leaves = LeavesOf(Graph(model.graph.arena(), model.graph.inputs(), outputs), kind);
  if (leaves.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the loss depends on no ", flags.by, " of floating-point numbers"));
  }
  if (type.num_elements() != 1) {
    console.Note(absl::StrCat("the loss is of type ", type.ToString(), ": its elements are added up"));
    std::vector<int64_t> axes;
    for (int axis = 0; axis < type.rank(); ++axis) axes.push_back(axis);
    ASSIGN_OR_RETURN(loss, arena.Apply("reduce_sum", {loss}, {{"axes", axes}, {"keepdims", int64_t{0}}}));
  }
  std::vector<Value> by;
  for (const auto& [name, value] : leaves) by.push_back(value);
  ASSIGN_OR_RETURN(const std::vector<Value> gradients, Gradients(arena, loss, by));
  for (size_t i = 0; i < by.size(); ++i) outputs.push_back({gradients[i], absl::StrCat("grad_", leaves[i].first)});
  Graph graph(model.graph.arena(), model.graph.inputs(), std::move(outputs));
  if (!flags.derived) {
    ASSIGN_OR_RETURN(const Lowering lowering, LowerGradients(graph));
    graph = lowering.graph;
    std::set<std::string> rules;
    for (const Lowering::Step& step : lowering.steps) rules.insert(step.rule);
    console.json()["rules"] = rules;
  }
  const std::set<std::string> derived = DerivedOps(graph);
  if (flags.output.ends_with(".onnx")) {
    const absl::Status written = WriteModel(graph, model.metadata, flags.output);
    if (absl::IsUnimplemented(written)) {
      return absl::UnimplementedError(
          absl::StrCat(written.message(), "; write the graph as text (-o FILE.txt, or no -o)"));
    }
    RETURN_IF_ERROR(written);
  } else if (!flags.output.empty()) {
    RETURN_IF_ERROR(WriteText(flags.output, PrintGraph(graph)));
  } else {
    console.Result(PrintGraph(graph));
  }
  console.Note(absl::StrCat(by.size(), " gradients; ", derived.size(), " derived operators"));
  console.json()["gradients"] = OutputNames(graph);
  console.json()["derived_operators"] = derived;
  console.json()["operators"] = ToJson(CountOperators(graph));
  return Answer::kYes;
}

}  // namespace

Action DeclareGrad(CommandLine& line) {
  auto flags = std::make_shared<GradFlags>();
  line.Add("model", &flags->model, "An ONNX file").Required().Type("MODEL.onnx");
  line.Add("--loss", &flags->loss, "The output that is differentiated; its elements are added up").Type("NAME");
  line.AddChoice("--by", &flags->by, {"states", "inputs"},
                 "What it is differentiated by: states (the weights, the default) or inputs");
  line.AddSwitch("--derived", &flags->derived,
                 "Leave derived operators as they are; without it rules write them in others");
  AddReading(line, &flags->dims, &flags->fold_defaults);
  line.AddOutputPath("-o,--output", &flags->output, "Where the graph is written: as text, or .onnx").Type("FILE");
  return [flags](Session& session) { return Grad(*flags, session); };
}

}  // namespace rewright
