#include "core/onnx/import/graph_importer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "core/onnx/initializers/trained.h"
#include "core/onnx/proto.h"

namespace rewright {
namespace {

constexpr int kMaxListedNodes = 3;  // names per operator in the list of unsupported ones

absl::flat_hash_set<std::string> InitializerNames(const onnx::GraphProto& graph) {
  absl::flat_hash_set<std::string> names;
  for (const onnx::TensorProto& tensor : graph.initializer()) names.insert(tensor.name());
  return names;
}

// Returns the symbolic dimension along an axis of an input, as ImportOptions::dims names it.
std::string DimensionName(const onnx::ValueInfoProto& info, int axis) {
  const std::string& name = info.type().tensor_type().shape().dim(axis).dim_param();
  return name.empty() ? absl::StrCat(info.name(), ":", axis) : name;
}

}  // namespace

bool IsOnnxDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::string QualifiedName(const onnx::NodeProto& node) {
  return IsOnnxDomain(node.domain()) ? node.op_type() : absl::StrCat(node.domain(), ".", node.op_type());
}

std::string NodeText(const onnx::NodeProto& node) {
  const std::string name = !node.name().empty()     ? absl::StrCat("\"", node.name(), "\"")
                           : node.output_size() > 0 ? absl::StrCat("giving \"", node.output(0), "\"")
                                                    : "without a name";
  return absl::StrCat("node ", name, " (", QualifiedName(node), ")");
}

const OnnxOperator* FindOperator(const onnx::NodeProto& node, int64_t opset) {
  if (HoldsSubgraph(node)) return nullptr;
  const auto found = OnnxOperatorTable().find(QualifiedName(node));
  return found == OnnxOperatorTable().end() || found->second.first_opset > opset ? nullptr : &found->second;
}

bool HoldsSubgraph(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(), [](const onnx::AttributeProto& attribute) {
    return attribute.has_g() || attribute.graphs_size() > 0;
  });
}

std::vector<std::string> ReadsOf(const onnx::NodeProto& node) {
  std::vector<std::string> reads;
  for (const std::string& name : node.input()) {
    if (!name.empty()) reads.push_back(name);
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    absl::flat_hash_set<std::string> own = InitializerNames(attribute.g());
    for (const onnx::ValueInfoProto& info : attribute.g().input()) own.insert(info.name());
    const auto read = [&](const std::string& name) {
      if (!own.contains(name)) reads.push_back(name);
    };
    for (const onnx::NodeProto& inner : attribute.g().node()) {
      for (const std::string& name : ReadsOf(inner)) read(name);
      own.insert(inner.output().begin(), inner.output().end());
    }
    for (const onnx::ValueInfoProto& info : attribute.g().output()) read(info.name());
  }
  return reads;
}

bool IsControlFlow(const onnx::NodeProto& node) {
  return IsOnnxDomain(node.domain()) &&
         (node.op_type() == "If" || node.op_type() == "Loop" || node.op_type() == "Scan");
}

void UnsupportedList::Add(const std::string& what, const onnx::NodeProto& node) {
  Entry& entry = entries_[what];
  ++entry.count;
  if (static_cast<int>(entry.nodes.size()) < kMaxListedNodes) entry.nodes.push_back(NodeText(node));
}

void UnsupportedList::Add(const std::string& tensor) { entries_[tensor]; }

absl::Status UnsupportedList::ToStatus(const std::string& subject, const std::string& hint) const {
  std::vector<std::string> lines;
  bool only_nodes = true;
  for (const auto& [what, entry] : entries_) {
    if (entry.count == 0) {
      only_nodes = false;
      lines.push_back(what);
      continue;
    }
    const bool more = entry.count > kMaxListedNodes;
    lines.push_back(absl::StrCat(what, " [", entry.count, entry.count == 1 ? " node: " : " nodes: ",
                                 absl::StrJoin(entry.nodes, ", "), more ? ", ..." : "", "]"));
  }
  if (!only_nodes && lines.size() == 1) return absl::UnimplementedError(lines[0]);
  return Unimplemented(only_nodes ? subject + " " : "", "not supported: ", absl::StrJoin(lines, "; "), hint);
}

GraphImporter::GraphImporter(onnx::ModelProto& model, InitializersByName& initializers, const std::string& directory,
                             bool map, int64_t opset, const ImportOptions& options)
    : model_(model), graph_(*model.mutable_graph()), initializers_(initializers), map_(map), options_(options) {
  state_.opset = opset;
  state_.directory = directory;
  state_.generated_bytes_left = options.max_generated_bytes;
  state_.training = options.training;
  state_.differentiated = options.differentiated || options.training == OnnxTraining::kStep;
  state_.seed = options.seed;
  result_.fold_defaults = options.fold_defaults;
  if (options.fold_defaults || options.training != OnnxTraining::kAsWritten || model.ir_version() < 4) return;
  const absl::flat_hash_set<std::string> known = InitializerNames(graph_);
  for (const onnx::ValueInfoProto& info : graph_.input()) {
    if (known.contains(info.name())) with_default_.insert(info.name());
  }
}

absl::StatusOr<ImportedModel> GraphImporter::Import() {
  if (!options_.keep_unknown) RETURN_IF_ERROR(CheckOperators());
  RETURN_IF_ERROR(ReadInitializers());
  if (options_.training != OnnxTraining::kAsWritten) {
    InitializerRoles roles = RolesOfInitializers(options_, graph_, initializers_);
    left_ = std::move(roles.left);
    result_.undecided = std::move(roles.undecided);
    result_.weight_notes = std::move(roles.notes);
  }
  RETURN_IF_ERROR(CheckNames());
  RETURN_IF_ERROR(ImportInitializers());
  RETURN_IF_ERROR(ImportInputs());
  RETURN_IF_ERROR(FindProducers());
  for (at_ = 0; at_ < graph_.node_size(); ++at_) {
    RETURN_IF_ERROR(StopScope::Check());
    RETURN_IF_ERROR(ImportNode(graph_.node(at_)));
  }
  if (!unsupported_.empty()) return unsupported_.ToStatus("uses of operators are", HintOf(unread_));
  ASSIGN_OR_RETURN(std::vector<Output> outputs, ImportOutputs());
  RETURN_IF_ERROR(AddCut(&outputs));
  outputs.insert(outputs.end(), state_.updates.begin(), state_.updates.end());
  const Graph graph(state_.arena, inputs_, std::move(outputs));
  if (options_.training != OnnxTraining::kAsWritten) NoteLeft(graph);
  // While nodes are imported, weights count as known: they may be shapes and scales.
  result_.graph = options_.training == OnnxTraining::kStep ? CopyGraph(graph, Mode::kTraining) : graph;
  return std::move(result_);
}

absl::Status GraphImporter::CheckOperators() {
  UnsupportedList unsupported;
  std::vector<const onnx::NodeProto*> nodes;
  for (const onnx::NodeProto& node : graph_.node()) {
    if (FindOperator(node, state_.opset) != nullptr || IsControlFlow(node)) continue;
    unsupported.Add(QualifiedName(node), node);
    nodes.push_back(&node);
  }
  if (unsupported.empty()) return absl::OkStatus();
  ImportInputs().IgnoreError();  // declared types may name their sizes
  return unsupported.ToStatus("operators are", HintOf(nodes));
}

absl::Status GraphImporter::Define(const std::string& name, Value value, const std::string& what) {
  if (name.empty()) return InvalidArgument(what, " has no name");
  if (!values_.emplace(name, value).second) {
    return InvalidArgument(what, " \"", name, "\": the name is taken");
  }
  if (scope_ != nullptr) scope_->push_back(name);
  return absl::OkStatus();
}

absl::Status GraphImporter::ReadInitializers() {
  absl::flat_hash_set<std::string> names;
  for (onnx::TensorProto& proto : *graph_.mutable_initializer()) {
    RETURN_IF_ERROR(StopScope::Check());
    const std::string where = absl::StrCat("initializer \"", proto.name(), "\"");
    if (proto.name().empty() || !names.insert(proto.name()).second) {
      return InvalidArgument(where, ": the name is empty or taken");
    }
    if (initializers_.contains(proto.name())) continue;
    auto tensor = TakeTensor(&proto, state_.directory, map_);
    if (absl::IsUnimplemented(tensor.status())) {
      LeaveAside(proto.name(), where, tensor.status());
      continue;
    }
    if (!tensor.ok()) return ErrorAt(where, tensor.status());
    initializers_.emplace(proto.name(), *std::move(tensor));
    // Moves the elements out, since two copies of all weights would take too much memory; clearing fields would keep
    // theirs.
    onnx::TensorProto name;
    name.set_name(proto.name());
    proto.Swap(&name);
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::ImportInitializers() {
  for (const onnx::TensorProto& proto : graph_.initializer()) {
    const auto known = initializers_.find(proto.name());
    if (known == initializers_.end()) continue;  // left aside
    if (with_default_.contains(known->first)) {
      result_.metadata.defaults.emplace(known->first, known->second);
      continue;
    }
    ASSIGN_OR_RETURN(const Value value, InitializerValue(proto.name(), known->second));
    NameValue(value, proto.name());
    values_.emplace(proto.name(), value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> GraphImporter::InitializerValue(const std::string& name, const Tensor& tensor) {
  const bool trains =
      options_.training != OnnxTraining::kAsWritten && IsFloating(tensor.dtype()) && !left_.contains(name);
  if (trains) trained_.insert(name);
  return trains && tensor.num_elements() == 1 ? state_.arena->AddState(name, tensor)
                                              : AddModelTensor(*state_.arena, name, tensor);
}

void GraphImporter::NoteLeft(const Graph& graph) {
  for (Value state : graph.states()) {
    const std::string& name = graph.node(state.node).name;
    if (!IsFloating(graph.type(state).dtype) || trained_.contains(name)) continue;
    const auto why = left_.find(name);
    result_.left.emplace(name, why != left_.end() ? why->second : "a constant of the graph, no initializer");
  }
}

absl::Status GraphImporter::ImportInputs() {
  std::set<std::string> names;
  std::vector<std::string> defaults;
  ReadDefaultSizes();
  for (const onnx::ValueInfoProto& info : graph_.input()) {
    const std::string where = absl::StrCat("input \"", info.name(), "\"");
    if (!names.insert(info.name()).second) return InvalidArgument(where, " occurs twice");
    if (values_.contains(info.name())) {  // an initializer: up to version 3 all are listed here, later inputs alone
      if (model_.ir_version() >= 4) defaults.push_back(info.name());
      continue;
    }
    if (info.name().empty()) return absl::InvalidArgumentError("an input has no name");
    auto type = InputType(info);
    if (absl::IsUnimplemented(type.status())) {
      LeaveAside(info.name(), where, type.status());
      continue;
    }
    if (!type.ok()) return ErrorAt(where, type.status());
    ASSIGN_OR_RETURN(const Value value, state_.arena->AddInput(GivenName(info.name()), *type));
    RETURN_IF_ERROR(Define(info.name(), value, "input"));
    inputs_.push_back(value);
    if (result_.metadata.defaults.contains(info.name())) {
      defaults.push_back(info.name());
      TakeDefault(info.name(), *type);
    }
  }
  if (!defaults.empty()) {
    const auto shown = std::min<ptrdiff_t>(kMaxListedNodes, std::ssize(defaults));
    const std::string listed = absl::StrJoin(defaults.begin(), defaults.begin() + shown, ", ");
    result_.notes.push_back(absl::StrCat(
        with_default_.empty() ? "inputs with a default are taken for what it says: "
                              : "inputs with a default stay inputs, and nothing of them is known beforehand: ",
        listed, shown < std::ssize(defaults) ? ", ..." : "",
        with_default_.empty() ? "" : " (--fold-defaults takes them for what their defaults say)"));
  }
  std::map<std::string, Tensor> given;
  for (auto& [name, tensor] : result_.metadata.defaults) given.emplace(GivenName(name), std::move(tensor));
  result_.metadata.defaults = std::move(given);
  return CheckDims();
}

void GraphImporter::TakeDefault(const std::string& name, const TensorType& type) {
  const auto found = result_.metadata.defaults.find(name);
  if (found->second.type() == type) return;
  result_.notes.push_back(absl::StrCat("input \"", name, "\": its default is ", found->second.type().ToString(),
                                       ", expected ", type.ToString(), ": left aside"));
  result_.metadata.defaults.erase(found);
}

void GraphImporter::ReadDefaultSizes() {
  for (const onnx::ValueInfoProto& info : graph_.input()) {
    const auto found = result_.metadata.defaults.find(info.name());
    const onnx::TensorShapeProto& shape = info.type().tensor_type().shape();
    if (found == result_.metadata.defaults.end() || found->second.type().rank() != shape.dim_size()) continue;
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      const int64_t size = found->second.shape()[static_cast<size_t>(axis)];
      if (!shape.dim(axis).has_dim_value() && size > 0) default_sizes_.emplace(DimensionName(info, axis), size);
    }
  }
}

void GraphImporter::LeaveAside(const std::string& tensor, const std::string& where, const absl::Status& why) {
  if (!KeepsTail()) unsupported_.Add(absl::StrCat(where, ": ", why.message()));
  unknown_.insert(tensor);
}

absl::StatusOr<TensorType> GraphImporter::InputType(const onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type()) return absl::UnimplementedError("is no tensor");
  const onnx::TypeProto::Tensor& tensor = info.type().tensor_type();
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(tensor.elem_type()));
  if (!tensor.has_shape()) return absl::UnimplementedError("its rank is not declared");
  TensorType type{dtype, {}};
  std::vector<std::string>& names = result_.dim_names.emplace_back(tensor.shape().dim_size());
  for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
    const onnx::TensorShapeProto::Dimension& dim = tensor.shape().dim(axis);
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      type.shape.push_back(dim.dim_value());
      continue;
    }
    const std::string name = DimensionName(info, axis);
    const auto given = options_.dims.find(name);
    const auto of_default = default_sizes_.find(name);
    const std::optional<SizeRelation> sum = RelationOf(name);
    const int64_t otherwise = sum ? sum->At(SizesIn(*sum)).value_or(1) : options_.other_sizes;
    const int64_t size = given != options_.dims.end()         ? given->second
                         : of_default != default_sizes_.end() ? of_default->second
                                                              : otherwise;
    if (size < 1) return InvalidArgument("dimension ", name, " is set to ", size);
    if (dim.has_dim_value()) {
      result_.notes.push_back(
          absl::StrCat("input \"", info.name(), "\": its size along axis ", axis, " is ", dim.dim_value(),
                       ", expected a number of at least 0 or a name: taken for a size that is not given"));
    }
    result_.dims.emplace(name, size);
    names[axis] = name;
    type.shape.push_back(size);
  }
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  return type;
}

index::NamedSizes GraphImporter::SizesIn(const SizeRelation& sum) const {
  index::NamedSizes sizes = options_.dims;
  for (const auto& [name, factor] : sum.terms) sizes.emplace(name, options_.other_sizes);
  return sizes;
}

absl::Status GraphImporter::CheckDims() {
  std::vector<std::string> names;
  for (const auto& [name, size] : result_.dims) {
    names.push_back(name);
    if (!options_.dims.contains(name)) {
      result_.notes.push_back(absl::StrCat("dimension ", name, " is symbolic and was not given: taken to be ", size));
    }
  }
  for (const auto& [name, size] : options_.dims) {
    if (result_.dims.contains(name) || options_.other_dims || !unsupported_.empty()) continue;
    return InvalidArgument("there is no symbolic dimension ", name, "; the inputs have ",
                           names.empty() ? "none" : absl::StrJoin(names, ", "));
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::FindProducers() {
  for (int i = 0; i < graph_.node_size(); ++i) {
    for (const std::string& name : graph_.node(i).output()) {
      if (name.empty()) continue;
      if (values_.contains(name) || !producers_.emplace(name, i).second) {
        return InvalidArgument(NodeText(graph_.node(i)), ": gives tensor \"", name, "\", which is given already");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> GraphImporter::Operand(const std::string& name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto producer = producers_.find(name);
  if (producer == producers_.end()) {
    return InvalidArgument("reads tensor \"", name, "\", which nothing gives");
  }
  return InvalidArgument("reads tensor \"", name, "\" before ", NodeText(graph_.node(producer->second)),
                         " gives it: the nodes are not sorted, or form a cycle");
}

absl::Status GraphImporter::ImportNode(const onnx::NodeProto& node) {
  const auto named = [](const std::string& name) { return !name.empty(); };
  if (std::none_of(node.output().begin(), node.output().end(), named)) return absl::OkStatus();
  // Values after an unsupported use are unknown; the list continues with other nodes.
  const std::vector<std::string> reads = ReadsOf(node);
  if (std::any_of(reads.begin(), reads.end(), [&](const std::string& name) { return unknown_.contains(name); })) {
    if (KeepsTail()) AddToTail(node, "it reads what another one of them gives");
    unknown_.insert(node.output().begin(), node.output().end());
    unknown_.erase("");
    return absl::OkStatus();
  }
  if (++imported_ > kMaxNodes) {
    return InvalidArgument("more than ", kMaxNodes, " nodes, those of loops counted as often as they run");
  }
  const auto values = ValuesOf(node);
  if (absl::IsUnimplemented(values.status()) && KeepsTail()) {
    AddToTail(node, std::string(values.status().message()));
    unknown_.insert(node.output().begin(), node.output().end());
    unknown_.erase("");
    return absl::OkStatus();
  }
  if (absl::IsUnimplemented(values.status())) {
    unsupported_.Add(absl::StrCat(QualifiedName(node), ": ", std::string(values.status().message())), node);
    if (scope_ == nullptr) unread_.push_back(&node);
    unknown_.insert(node.output().begin(), node.output().end());
    unknown_.erase("");
    return absl::OkStatus();
  }
  if (!values.ok()) return ErrorAt(NodeText(node), values.status());
  for (size_t k = 0; k < values->size(); ++k) {
    if (static_cast<int>(k) >= node.output_size() || node.output(static_cast<int>(k)).empty()) continue;
    const std::string& name = node.output(static_cast<int>(k));
    if (scope_ == nullptr) {
      NameValue((*values)[k], name);
      values_.emplace(name, (*values)[k]);
    } else {
      RETURN_IF_ERROR(Define(name, (*values)[k], NodeText(node)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> GraphImporter::ValuesOf(const onnx::NodeProto& node) {
  absl::StatusOr<std::vector<Value>> values;
  if (IsControlFlow(node)) {
    // The unsupported nodes inside a graph that is not read are not reported.
    const UnsupportedList unsupported = unsupported_;
    const absl::flat_hash_set<std::string> unknown = unknown_;
    values = ControlFlow(node);
    if (absl::IsUnimplemented(values.status()) && KeepsTail()) {
      unsupported_ = unsupported;
      unknown_ = unknown;
    }
  } else {
    values = NodeValues(node);
  }
  if (!absl::IsUnimplemented(values.status()) || !options_.keep_unknown || scope_ != nullptr) return values;
  const std::string why(values.status().message());
  values = OpaqueValues(node, why);
  if (!values.ok()) values = Unimplemented(why, " (", values.status().message(), ")");
  return values;
}

void GraphImporter::AddToTail(const onnx::NodeProto& node, const std::string& why) {
  tail_.push_back(at_);
  result_.tail.push_back({.node = NodeText(node), .why = why});
}

absl::Status GraphImporter::AddCut(std::vector<Output>* outputs) {
  if (tail_.empty()) return absl::OkStatus();
  std::set<std::string> names;
  for (const Output& output : *outputs) names.insert(output.name);
  for (int position : tail_) {
    for (const std::string& name : ReadsOf(graph_.node(position))) {
      if (unknown_.contains(name)) continue;
      ASSIGN_OR_RETURN(const Value value, Operand(name));
      const bool is_leaf = state_.arena->node(value.node).op == nullptr;
      if (!is_leaf && names.insert(name).second) outputs->push_back({value, name});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> GraphImporter::NodeValues(const onnx::NodeProto& node) {
  const OnnxOperator* const op = FindOperator(node, state_.opset);
  if (op == nullptr) return absl::UnimplementedError("the operator is not known");
  std::vector<std::optional<Value>> operands;
  for (const std::string& name : node.input()) {
    operands.emplace_back();
    if (name.empty()) continue;
    ASSIGN_OR_RETURN(operands.back(), Operand(name));
  }
  return ImportOperator(state_, node, *op, std::move(operands));
}

Values ImportOperator(ImportState& state, const onnx::NodeProto& node, const OnnxOperator& op,
                      std::vector<std::optional<Value>> operands) {
  while (!operands.empty() && !operands.back()) operands.pop_back();
  const int count = static_cast<int>(operands.size());
  if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs)) {
    const std::string most = op.max_inputs < 0 ? " or more" : absl::StrCat(" to ", op.max_inputs);
    return InvalidArgument(count, " inputs; expected ", op.min_inputs, op.max_inputs == op.min_inputs ? "" : most);
  }
  for (int i = 0; i < op.min_inputs; ++i) {
    if (!operands[i]) return InvalidArgument("input ", i, " is missing");
  }
  OnnxNode reader(state, node, op, std::move(operands));
  Values values = op.import(reader);
  RETURN_IF_ERROR(reader.status());
  RETURN_IF_ERROR(values.status());
  RETURN_IF_ERROR(reader.CheckAttributes());
  for (int k = static_cast<int>(values->size()); k < node.output_size(); ++k) {
    if (!node.output(k).empty()) return Unimplemented("output ", k);
  }
  return values;
}

void GraphImporter::NameValue(Value value, const std::string& name) {
  if (state_.arena->name(value).empty()) state_.arena->SetName(value, name);
}

void GraphImporter::NoteOtherShape(const onnx::ValueInfoProto& info, const TensorType& type) {
  if (!info.type().tensor_type().has_shape()) return;
  const onnx::TensorShapeProto& declared = info.type().tensor_type().shape();
  bool fits = declared.dim_size() == static_cast<int>(type.shape.size());
  std::vector<std::string> sizes;
  for (int axis = 0; axis < declared.dim_size(); ++axis) {
    const onnx::TensorShapeProto::Dimension& dim = declared.dim(axis);
    const bool negative = dim.has_dim_value() && dim.dim_value() < 0;
    sizes.push_back(dim.has_dim_value() ? absl::StrCat(dim.dim_value()) : dim.dim_param());
    fits = fits && !negative && (!dim.has_dim_value() || dim.dim_value() == type.shape[axis]);
  }
  if (fits) return;
  result_.notes.push_back(absl::StrCat("output \"", info.name(), "\": declared with the shape [",
                                       absl::StrJoin(sizes, ","), "], but it is ", type.ToString()));
}

std::string GraphImporter::GivenName(const std::string& name) const {
  const auto found = options_.names.find(name);
  return found == options_.names.end() ? name : found->second;
}

absl::Status GraphImporter::CheckNames() const {
  std::set<std::string> names;
  for (const onnx::ValueInfoProto& info : graph_.input()) names.insert(info.name());
  for (const onnx::ValueInfoProto& info : graph_.output()) names.insert(info.name());
  for (const auto& [name, given] : options_.names) {
    if (names.contains(name)) continue;
    return InvalidArgument("found no input or output ", name, ", expected one of ", absl::StrJoin(names, ", "));
  }
  for (const auto* const list : {&graph_.input(), &graph_.output()}) {
    std::map<std::string, std::string> taken;
    for (const onnx::ValueInfoProto& info : *list) {
      const auto [first, inserted] = taken.emplace(GivenName(info.name()), info.name());
      if (inserted || first->second == info.name()) continue;  // what occurs twice is found elsewhere
      return InvalidArgument(first->second, " and ", info.name(), " would both be called ", first->first);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Output>> GraphImporter::ImportOutputs() {
  std::vector<Output> outputs;
  std::set<std::string> names;
  for (const onnx::ValueInfoProto& info : graph_.output()) {
    const std::string where = absl::StrCat("output \"", info.name(), "\"");
    const auto found = values_.find(info.name());
    if (found == values_.end() && !tail_.empty() && unknown_.contains(info.name())) continue;
    if (found == values_.end()) return InvalidArgument(where, ": nothing gives it");
    if (!names.insert(info.name()).second) return InvalidArgument(where, " occurs twice");
    const TensorType& type = state_.arena->type(found->second);
    const int32_t declared = info.type().tensor_type().elem_type();
    if (info.type().has_tensor_type() && declared != 0 && declared != DTypeToOnnx(type.dtype)) {
      return InvalidArgument(where, ": declared with element type number ", declared, ", but it is ", type.ToString());
    }
    NoteOtherShape(info, type);
    outputs.push_back(Output{found->second, GivenName(info.name())});
  }
  return outputs;
}

}  // namespace rewright
