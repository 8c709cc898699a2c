// If, Loop and Scan. If the condition or the number of iterations is known at import, copies of the subgraph replace
// the node, one per iteration. Conditions and counts must follow from constants and sizes.
#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/proto.h"

namespace rewright {
namespace {

constexpr int kMaxSubgraphDepth = 16;  // of subgraphs in subgraphs
constexpr int64_t kMaxTurns = 4096;    // of a loop

absl::StatusOr<const onnx::GraphProto*> Branch(const onnx::NodeProto& node, const std::string& name) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  if (attribute == nullptr || !attribute->has_g()) return InvalidArgument("attribute ", name, " is missing");
  return &attribute->g();
}

// Returns a list of one number for each of `count` items, zeros if it is not given.
absl::StatusOr<std::vector<int64_t>> List(const onnx::NodeProto& node, const std::string& name, size_t count) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  if (attribute == nullptr) return std::vector<int64_t>(count, 0);
  if (attribute->ints_size() != static_cast<int>(count)) {
    return InvalidArgument("attribute ", name, " has ", attribute->ints_size(), " entries; expected ", count);
  }
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

// Returns one index of an axis, which is removed.
absl::StatusOr<Value> Picked(Arena& arena, Value x, int64_t axis, int64_t index) {
  Shape starts(arena.type(x).shape.size(), 0), stops = arena.type(x).shape;
  starts[static_cast<size_t>(axis)] = index;
  stops[static_cast<size_t>(axis)] = index + 1;
  ASSIGN_OR_RETURN(const Value part, arena.Apply("slice", {x}, {{"starts", starts}, {"stops", stops}}));
  Shape shape = arena.type(x).shape;
  shape.erase(shape.begin() + axis);
  return arena.Apply("reshape", {part}, {{"shape", shape}});
}

// Stacks values of one type along a new axis, in reverse order if `backward` is set.
absl::StatusOr<Value> Stacked(Arena& arena, std::vector<Value> parts, int64_t axis, bool backward) {
  if (parts.empty()) return absl::UnimplementedError("a loop that gives nothing in no turn");
  if (backward) std::reverse(parts.begin(), parts.end());
  Shape shape = arena.type(parts[0]).shape;
  const auto rank = static_cast<int64_t>(shape.size()) + 1;
  if (axis < -rank || axis >= rank) return InvalidArgument("axis ", axis, " of ", rank);
  if (axis < 0) axis += rank;
  shape.insert(shape.begin() + axis, 1);
  for (Value& part : parts) {
    ASSIGN_OR_RETURN(part, arena.Apply("reshape", {part}, {{"shape", shape}}));
  }
  return parts.size() == 1 ? parts[0] : arena.Apply("concat", parts, {{"axis", axis}});
}

}  // namespace

Values GraphImporter::Subgraph(const onnx::GraphProto& graph, const std::vector<Value>& inputs) {
  if (depth_ >= kMaxSubgraphDepth) return Unimplemented("subgraphs more than ", kMaxSubgraphDepth, " deep");
  if (static_cast<size_t>(graph.input_size()) != inputs.size()) {
    return InvalidArgument("a subgraph of ", graph.input_size(), " inputs is given ", inputs.size());
  }
  std::vector<std::string> names;
  std::vector<std::string>* const outer = scope_;
  scope_ = &names;
  ++depth_;
  const absl::Cleanup leave = [&] {
    for (const std::string& name : names) values_.erase(name);
    scope_ = outer;
    --depth_;
  };
  for (int i = 0; i < graph.input_size(); ++i) {
    RETURN_IF_ERROR(Define(graph.input(i).name(), inputs[static_cast<size_t>(i)], "input of a subgraph"));
  }
  for (const onnx::TensorProto& proto : graph.initializer()) {
    auto tensor = TensorFromProto(proto, state_.directory);
    if (!tensor.ok()) return ErrorAt(absl::StrCat("initializer \"", proto.name(), "\""), tensor.status());
    ASSIGN_OR_RETURN(const Value value, InitializerValue(proto.name(), *tensor));
    RETURN_IF_ERROR(Define(proto.name(), value, "initializer of a subgraph"));
  }
  for (const onnx::NodeProto& node : graph.node()) RETURN_IF_ERROR(ImportNode(node));
  std::vector<Value> outputs;
  for (const onnx::ValueInfoProto& info : graph.output()) {
    if (unknown_.contains(info.name())) return absl::UnimplementedError("a node of its subgraph");
    ASSIGN_OR_RETURN(outputs.emplace_back(), Operand(info.name()));
  }
  return outputs;
}

absl::StatusOr<int64_t> GraphImporter::KnownNumber(const std::string& name, const std::string& what) {
  ASSIGN_OR_RETURN(const Value value, Operand(name));
  if (!state_.arena->IsKnown(value)) {
    return Unimplemented(what, " (tensor \"", name,
                         "\") depends on the inputs of the model; its value must be known "
                         "beforehand");
  }
  ASSIGN_OR_RETURN(const Tensor tensor, EvaluateWeightOnly(state_.arena, value));
  if (tensor.num_elements() != 1) return InvalidArgument(what, " is not one number");
  return tensor.AtInt(0);
}

Values GraphImporter::ImportIf(const onnx::NodeProto& node) {
  if (node.input_size() != 1) return absl::InvalidArgumentError("expected one input");
  ASSIGN_OR_RETURN(const int64_t condition, KnownNumber(node.input(0), "input cond"));
  ASSIGN_OR_RETURN(const onnx::GraphProto* branch, Branch(node, condition != 0 ? "then_branch" : "else_branch"));
  return Subgraph(*branch, {});
}

Values GraphImporter::ImportLoop(const onnx::NodeProto& node) {
  const auto given = [&](int i) { return node.input_size() > i && !node.input(i).empty(); };
  int64_t turns = kMaxTurns + 1, goes_on = 1;
  if (given(0)) {
    ASSIGN_OR_RETURN(turns, KnownNumber(node.input(0), "input M"));
  }
  if (given(1)) {
    ASSIGN_OR_RETURN(goes_on, KnownNumber(node.input(1), "input cond"));
  }
  ASSIGN_OR_RETURN(const onnx::GraphProto* body, Branch(node, "body"));
  std::vector<Value> carried;
  for (int i = 2; i < node.input_size(); ++i) {
    ASSIGN_OR_RETURN(carried.emplace_back(), Operand(node.input(i)));
  }
  const int collected = body->output_size() - 1 - static_cast<int>(carried.size());
  if (collected < 0) return absl::InvalidArgumentError("the body gives less than it is given");
  std::vector<std::vector<Value>> parts(static_cast<size_t>(collected));
  for (int64_t turn = 0; turn < turns && goes_on != 0; ++turn) {
    if (turn >= kMaxTurns) return Unimplemented("more than ", kMaxTurns, " turns");
    Tensor number(TensorType{DType::kInt64, {}});
    number.SetInt(0, turn);
    Tensor truth(TensorType{DType::kBool, {}});
    truth.Set(0, 1);
    std::vector<Value> inputs = {state_.arena->AddConstant(number), state_.arena->AddConstant(truth)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    ASSIGN_OR_RETURN(const std::vector<Value> outputs, Subgraph(*body, inputs));
    if (!state_.arena->IsKnown(outputs[0])) return absl::UnimplementedError("a condition that is not known");
    ASSIGN_OR_RETURN(const Tensor condition, EvaluateWeightOnly(state_.arena, outputs[0]));
    goes_on = condition.AtInt(0);
    std::copy_n(outputs.begin() + 1, carried.size(), carried.begin());
    for (size_t k = 0; k < parts.size(); ++k) parts[k].push_back(outputs[1 + carried.size() + k]);
  }
  std::vector<Value> results = carried;
  for (std::vector<Value>& list : parts) {
    ASSIGN_OR_RETURN(results.emplace_back(), Stacked(*state_.arena, std::move(list), 0, false));
  }
  return results;
}

Values GraphImporter::ImportScan(const onnx::NodeProto& node) {
  if (state_.opset < 9) return absl::UnimplementedError("Scan before opset 9");
  ASSIGN_OR_RETURN(const onnx::GraphProto* body, Branch(node, "body"));
  const onnx::AttributeProto* count = FindAttribute(node, "num_scan_inputs");
  const int64_t scanned = count == nullptr ? 0 : count->i();
  if (scanned < 1 || scanned > node.input_size()) {
    return InvalidArgument("attribute num_scan_inputs is ", scanned);
  }
  std::vector<Value> carried, sequences;
  for (int i = 0; i < node.input_size(); ++i) {
    ASSIGN_OR_RETURN(const Value value, Operand(node.input(i)));
    (i < node.input_size() - scanned ? carried : sequences).push_back(value);
  }
  if (body->output_size() < static_cast<int>(carried.size())) {
    return absl::InvalidArgumentError("the body gives less than it is given");
  }
  std::vector<std::vector<Value>> parts(static_cast<size_t>(body->output_size()) - carried.size());
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, List(node, "scan_input_axes", sequences.size()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> backward, List(node, "scan_input_directions", sequences.size()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> output_axes, List(node, "scan_output_axes", parts.size()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> output_backward, List(node, "scan_output_directions", parts.size()));
  int64_t turns = -1;
  for (size_t k = 0; k < sequences.size(); ++k) {
    const TensorType& type = state_.arena->type(sequences[k]);
    ASSIGN_OR_RETURN(axes[k], OnnxNode::Axis(axes[k], type.rank()));
    const int64_t size = type.shape[static_cast<size_t>(axes[k])];
    if (turns >= 0 && size != turns) return absl::InvalidArgumentError("sequences of different lengths");
    turns = size;
  }
  if (turns > kMaxTurns) return Unimplemented("more than ", kMaxTurns, " turns");
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::vector<Value> inputs = carried;
    for (size_t k = 0; k < sequences.size(); ++k) {
      const int64_t index = backward[k] != 0 ? turns - 1 - turn : turn;
      ASSIGN_OR_RETURN(inputs.emplace_back(), Picked(*state_.arena, sequences[k], axes[k], index));
    }
    ASSIGN_OR_RETURN(const std::vector<Value> outputs, Subgraph(*body, inputs));
    std::copy_n(outputs.begin(), carried.size(), carried.begin());
    for (size_t k = 0; k < parts.size(); ++k) parts[k].push_back(outputs[carried.size() + k]);
  }
  std::vector<Value> results = carried;
  for (size_t k = 0; k < parts.size(); ++k) {
    ASSIGN_OR_RETURN(results.emplace_back(),
                     Stacked(*state_.arena, std::move(parts[k]), output_axes[k], output_backward[k] != 0));
  }
  return results;
}

Values GraphImporter::ControlFlow(const onnx::NodeProto& node) {
  absl::StatusOr<std::vector<Value>> values = node.op_type() == "If"     ? ImportIf(node)
                                              : node.op_type() == "Loop" ? ImportLoop(node)
                                                                         : ImportScan(node);
  if (values.ok() && std::ssize(*values) < node.output_size()) {
    return InvalidArgument("the subgraph gives ", values->size(), " values");
  }
  return values;
}

}  // namespace rewright
