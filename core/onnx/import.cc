// The model around the nodes: reading the file, inputs and initializers, the walk over the nodes, outputs.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/node.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"
#include "core/onnx/source.h"
#include "core/onnx/tensor_proto.h"
#include "core/onnx/utf8.h"

namespace rewright {
namespace {

constexpr int kMaxNodes = 1000000;
constexpr int kMaxListedNodes = 3;  // names per operator in the list of unsupported ones

bool IsOnnxDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::string QualifiedName(const onnx::NodeProto& node) {
  return IsOnnxDomain(node.domain()) ? node.op_type() : absl::StrCat(node.domain(), ".", node.op_type());
}

// A node as a person finds it: by its name, or by the first of its outputs.
std::string NodeText(const onnx::NodeProto& node) {
  const std::string name = !node.name().empty()     ? absl::StrCat("\"", node.name(), "\"")
                           : node.output_size() > 0 ? absl::StrCat("giving \"", node.output(0), "\"")
                                                    : "without a name";
  return absl::StrCat("node ", name, " (", QualifiedName(node), ")");
}

// ---------------------------------------------------------------- the model

absl::Status ParseModel(google::protobuf::io::ZeroCopyInputStream* stream, onnx::ModelProto* model) {
  google::protobuf::io::CodedInputStream coded(stream);
  if (!model->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError("not an ONNX model, or damaged");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<onnx::ModelProto>> ReadModel(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": larger than 2 GiB, where protobuf ends; large weights belong into external data"));
  }
  auto model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::FileInputStream stream(file.descriptor());
  RETURN_IF_ERROR(ErrorAt(path, ParseModel(&stream, model.get())));
  return model;
}

ModelMetadata MetadataOf(const onnx::ModelProto& model) {
  ModelMetadata metadata;
  metadata.ir_version = model.ir_version();
  for (const onnx::OperatorSetIdProto& opset : model.opset_import()) {
    metadata.opsets[IsOnnxDomain(opset.domain()) ? "" : opset.domain()] = opset.version();
  }
  metadata.producer_name = model.producer_name();
  metadata.producer_version = model.producer_version();
  metadata.domain = model.domain();
  metadata.model_version = model.model_version();
  metadata.doc = model.doc_string();
  metadata.graph_name = model.graph().name();
  metadata.graph_doc = model.graph().doc_string();
  for (const onnx::StringStringEntryProto& property : model.metadata_props()) {
    metadata.properties.emplace_back(property.key(), property.value());
  }
  return metadata;
}

absl::Status CheckModel(const onnx::ModelProto& model, const ModelMetadata& metadata) {
  if (!model.has_graph() || model.graph().output_size() == 0) {
    return absl::InvalidArgumentError("holds no graph with outputs; not an ONNX model?");
  }
  RETURN_IF_ERROR(CheckModelText(model));
  const auto opset = metadata.opsets.find("");
  const auto& nodes = model.graph().node();
  if (opset == metadata.opsets.end()) {
    // A model of other domains alone has none; its operators will be listed as unsupported.
    if (std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return IsOnnxDomain(node.domain()); })) {
      return absl::InvalidArgumentError("does not say its opset (of domain \"\")");
    }
  } else if (opset->second < kOldestOpset || opset->second > kNewestOpset) {
    return absl::UnimplementedError(
        absl::StrCat("opset ", opset->second, "; expected ", kOldestOpset, " to ", kNewestOpset));
  }
  if (model.graph().node_size() > kMaxNodes) {
    return absl::InvalidArgumentError(absl::StrCat(model.graph().node_size(), " nodes; at most ", kMaxNodes));
  }
  if (model.graph().sparse_initializer_size() > 0) {
    return absl::UnimplementedError(
        absl::StrCat("sparse tensor \"", model.graph().sparse_initializer(0).values().name(), "\" is not supported"));
  }
  return absl::OkStatus();
}

int64_t OpsetOf(const ModelMetadata& metadata) {
  const auto found = metadata.opsets.find("");
  return found == metadata.opsets.end() ? kOldestOpset : found->second;
}

bool HoldsSubgraph(const onnx::NodeProto& node) {
  return std::any_of(node.attribute().begin(), node.attribute().end(), [](const onnx::AttributeProto& attribute) {
    return attribute.has_g() || attribute.graphs_size() > 0;
  });
}

// Null where the operator, at that opset, is not supported.
const OnnxOperator* FindOperator(const onnx::NodeProto& node, int64_t opset) {
  if (HoldsSubgraph(node)) return nullptr;
  const auto found = OnnxOperatorTable().find(QualifiedName(node));
  return found == OnnxOperatorTable().end() || found->second.first_opset > opset ? nullptr : &found->second;
}

// Things that are not supported, each with the nodes where it occurs.
class UnsupportedList {
 public:
  void Add(const std::string& what, const onnx::NodeProto& node) {
    Entry& entry = entries_[what];
    ++entry.count;
    if (static_cast<int>(entry.nodes.size()) < kMaxListedNodes) entry.nodes.push_back(NodeText(node));
  }
  bool empty() const { return entries_.empty(); }
  // `subject`: "operators are"
  absl::Status ToStatus(const std::string& subject) const {
    std::vector<std::string> lines;
    for (const auto& [what, entry] : entries_) {
      const bool more = entry.count > kMaxListedNodes;
      lines.push_back(absl::StrCat(what, " [", entry.count, entry.count == 1 ? " node: " : " nodes: ",
                                   absl::StrJoin(entry.nodes, ", "), more ? ", ..." : "", "]"));
    }
    return absl::UnimplementedError(absl::StrCat(subject, " not supported: ", absl::StrJoin(lines, "; ")));
  }

 private:
  struct Entry {
    int count = 0;
    std::vector<std::string> nodes;
  };
  std::map<std::string, Entry> entries_;
};

// ---------------------------------------------------------------- the graph

// The initializers that were read, by name.
using Initializers = absl::flat_hash_map<std::string, Tensor>;

class GraphImporter {
 public:
  // The elements of initializers move from the model into `initializers`, or are there already.
  GraphImporter(onnx::ModelProto& model, Initializers& initializers, const std::string& directory, int64_t opset,
                const ImportOptions& options)
      : graph_(*model.mutable_graph()),
        initializers_(initializers),
        ir_version_(model.ir_version()),
        options_(options) {
    state_.opset = opset;
    state_.directory = directory;
    state_.generated_bytes_left = options.max_generated_bytes;
    state_.training = options.training;
    state_.seed = options.seed;
  }

  absl::StatusOr<Graph> Import() {
    RETURN_IF_ERROR(CheckOperators());
    RETURN_IF_ERROR(ImportInitializers());
    RETURN_IF_ERROR(ImportInputs());
    RETURN_IF_ERROR(FindProducers());
    for (int i = 0; i < graph_.node_size(); ++i) RETURN_IF_ERROR(ImportNode(i));
    if (!unsupported_.empty()) return unsupported_.ToStatus("uses of operators are");
    ASSIGN_OR_RETURN(std::vector<Output> outputs, ImportOutputs());
    outputs.insert(outputs.end(), state_.updates.begin(), state_.updates.end());
    const Graph graph(state_.arena, inputs_, std::move(outputs));
    // While nodes are imported weights count as known: they may be shapes and scales.
    return options_.training == OnnxTraining::kStep ? CopyGraph(graph, Mode::kTraining) : graph;
  }

  const std::vector<std::string>& notes() const { return notes_; }
  const std::map<std::string, int64_t>& dims() const { return dims_; }
  const std::vector<std::vector<std::string>>& dim_names() const { return dim_names_; }
  const absl::flat_hash_map<std::string, Value>& values() const { return values_; }

 private:
  absl::Status CheckOperators() const {
    UnsupportedList unsupported;
    for (const onnx::NodeProto& node : graph_.node()) {
      if (FindOperator(node, state_.opset) == nullptr) unsupported.Add(QualifiedName(node), node);
    }
    return unsupported.empty() ? absl::OkStatus() : unsupported.ToStatus("operators are");
  }

  absl::Status Define(const std::string& name, Value value, const std::string& what) {
    if (name.empty()) return absl::InvalidArgumentError(absl::StrCat(what, " has no name"));
    if (!values_.emplace(name, value).second) {
      return absl::InvalidArgumentError(absl::StrCat(what, " \"", name, "\": the name is taken"));
    }
    return absl::OkStatus();
  }

  absl::Status ImportInitializers() {
    for (onnx::TensorProto& proto : *graph_.mutable_initializer()) {
      const std::string where = absl::StrCat("initializer \"", proto.name(), "\"");
      if (proto.name().empty() || values_.contains(proto.name())) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": the name is empty or taken"));
      }
      auto known = initializers_.find(proto.name());
      if (known == initializers_.end()) {
        auto tensor = TensorFromProto(proto, state_.directory);
        if (!tensor.ok()) return ErrorAt(where, tensor.status());
        known = initializers_.emplace(proto.name(), *std::move(tensor)).first;
        // Two copies of all weights would be one too many; clearing fields would keep the memory.
        onnx::TensorProto name;
        name.set_name(proto.name());
        proto.Swap(&name);
      }
      ASSIGN_OR_RETURN(const Value value, AddModelTensor(*state_.arena, proto.name(), known->second));
      NameValue(value, proto.name());
      values_.emplace(proto.name(), value);
    }
    return absl::OkStatus();
  }

  absl::Status ImportInputs() {
    std::set<std::string> names;
    std::vector<std::string> defaults;
    for (const onnx::ValueInfoProto& info : graph_.input()) {
      const std::string where = absl::StrCat("input \"", info.name(), "\"");
      if (!names.insert(info.name()).second) return absl::InvalidArgumentError(absl::StrCat(where, " occurs twice"));
      if (values_.contains(info.name())) {  // an initializer: up to version 3 all are listed here, later inputs alone
        if (ir_version_ >= 4) defaults.push_back(info.name());
        continue;
      }
      auto type = InputType(info);
      if (!type.ok()) return ErrorAt(where, type.status());
      if (info.name().empty()) return absl::InvalidArgumentError("an input has no name");
      ASSIGN_OR_RETURN(const Value value, state_.arena->AddInput(info.name(), *type));
      RETURN_IF_ERROR(Define(info.name(), value, "input"));
      inputs_.push_back(value);
    }
    if (!defaults.empty()) {
      const auto shown = std::min<ptrdiff_t>(kMaxListedNodes, std::ssize(defaults));
      const std::string listed = absl::StrJoin(defaults.begin(), defaults.begin() + shown, ", ");
      notes_.push_back(absl::StrCat("inputs with a default are taken for constants: ", listed,
                                    shown < std::ssize(defaults) ? ", ..." : ""));
    }
    return CheckDims();
  }

  absl::StatusOr<TensorType> InputType(const onnx::ValueInfoProto& info) {
    if (!info.type().has_tensor_type()) return absl::UnimplementedError("is no tensor");
    const onnx::TypeProto::Tensor& tensor = info.type().tensor_type();
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(tensor.elem_type()));
    if (!tensor.has_shape()) return absl::UnimplementedError("its rank is not declared");
    TensorType type{dtype, {}};
    std::vector<std::string>& names = dim_names_.emplace_back(tensor.shape().dim_size());
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      const onnx::TensorShapeProto::Dimension& dim = tensor.shape().dim(axis);
      if (dim.has_dim_value() && dim.dim_value() >= 0) {
        type.shape.push_back(dim.dim_value());
        continue;
      }
      const std::string name = dim.dim_param().empty() ? absl::StrCat(info.name(), ":", axis) : dim.dim_param();
      const auto given = options_.dims.find(name);
      const int64_t size = given == options_.dims.end() ? 1 : given->second;
      if (size < 1) return absl::InvalidArgumentError(absl::StrCat("dimension ", name, " is set to ", size));
      dims_.emplace(name, size);
      names[axis] = name;
      type.shape.push_back(size);
    }
    RETURN_IF_ERROR(CheckedElements(type.shape).status());
    return type;
  }

  // Sizes given for dimensions that the model has not got are mistakes; sizes not given are worth a note.
  absl::Status CheckDims() {
    std::vector<std::string> names;
    for (const auto& [name, size] : dims_) {
      names.push_back(name);
      if (!options_.dims.contains(name)) {
        notes_.push_back(absl::StrCat("dimension ", name, " is symbolic and was not given: taken to be ", size,
                                      ", here and in what is rewritten"));
      }
    }
    for (const auto& [name, size] : options_.dims) {
      if (dims_.contains(name)) continue;
      return absl::InvalidArgumentError(absl::StrCat("there is no symbolic dimension ", name, "; the inputs have ",
                                                     names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
    return absl::OkStatus();
  }

  // Which node gives which tensor; every tensor is given once.
  absl::Status FindProducers() {
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (const std::string& name : graph_.node(i).output()) {
        if (name.empty()) continue;
        if (values_.contains(name) || !producers_.emplace(name, i).second) {
          return absl::InvalidArgumentError(
              absl::StrCat(NodeText(graph_.node(i)), ": gives tensor \"", name, "\", which is given already"));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Value> Operand(const std::string& name) const {
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("reads tensor \"", name, "\", which nothing gives"));
    }
    return absl::InvalidArgumentError(absl::StrCat("reads tensor \"", name, "\" before ",
                                                   NodeText(graph_.node(producer->second)),
                                                   " gives it: the nodes are not sorted, or form a cycle"));
  }

  absl::Status ImportNode(int i) {
    const onnx::NodeProto& node = graph_.node(i);
    const auto named = [](const std::string& name) { return !name.empty(); };
    if (std::none_of(node.output().begin(), node.output().end(), named)) return absl::OkStatus();
    // Behind a use that is not supported nothing is known; the list goes on elsewhere.
    if (std::any_of(node.input().begin(), node.input().end(),
                    [&](const std::string& name) { return unknown_.contains(name); })) {
      unknown_.insert(node.output().begin(), node.output().end());
      return absl::OkStatus();
    }
    auto values = NodeValues(node);
    if (absl::IsUnimplemented(values.status())) {
      unsupported_.Add(absl::StrCat(QualifiedName(node), ": ", std::string(values.status().message())), node);
      unknown_.insert(node.output().begin(), node.output().end());
      unknown_.erase("");
      return absl::OkStatus();
    }
    if (!values.ok()) return ErrorAt(NodeText(node), values.status());
    for (size_t k = 0; k < values->size(); ++k) {
      if (static_cast<int>(k) >= node.output_size() || node.output(static_cast<int>(k)).empty()) continue;
      const std::string& name = node.output(static_cast<int>(k));
      NameValue((*values)[k], name);
      values_.emplace(name, (*values)[k]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Value>> NodeValues(const onnx::NodeProto& node) {
    const OnnxOperator& op = *FindOperator(node, state_.opset);
    std::vector<std::optional<Value>> operands;
    for (const std::string& name : node.input()) {
      operands.emplace_back();
      if (name.empty()) continue;
      ASSIGN_OR_RETURN(operands.back(), Operand(name));
    }
    while (!operands.empty() && !operands.back()) operands.pop_back();
    const int count = static_cast<int>(operands.size());
    if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs)) {
      const std::string most = op.max_inputs < 0 ? " or more" : absl::StrCat(" to ", op.max_inputs);
      return absl::InvalidArgumentError(
          absl::StrCat(count, " inputs; expected ", op.min_inputs, op.max_inputs == op.min_inputs ? "" : most));
    }
    for (int i = 0; i < op.min_inputs; ++i) {
      if (!operands[i]) {
        return absl::InvalidArgumentError(absl::StrCat("input ", i, " is missing"));
      }
    }
    OnnxNode reader(state_, node, op, std::move(operands));
    ASSIGN_OR_RETURN(std::vector<Value> values, op.import(reader));
    RETURN_IF_ERROR(reader.CheckAttributes());
    for (int k = static_cast<int>(values.size()); k < node.output_size(); ++k) {
      if (!node.output(k).empty()) return absl::UnimplementedError(absl::StrCat("output ", k));
    }
    return values;
  }

  // The first name of a value stays.
  void NameValue(Value value, const std::string& name) {
    if (state_.arena->name(value).empty()) state_.arena->SetName(value, name);
  }

  absl::StatusOr<std::vector<Output>> ImportOutputs() const {
    std::vector<Output> outputs;
    std::set<std::string> names;
    for (const onnx::ValueInfoProto& info : graph_.output()) {
      const std::string where = absl::StrCat("output \"", info.name(), "\"");
      const auto found = values_.find(info.name());
      if (found == values_.end()) return absl::InvalidArgumentError(absl::StrCat(where, ": nothing gives it"));
      if (!names.insert(info.name()).second) return absl::InvalidArgumentError(absl::StrCat(where, " occurs twice"));
      const TensorType& type = state_.arena->type(found->second);
      const int32_t declared = info.type().tensor_type().elem_type();
      if (info.type().has_tensor_type() && declared != 0 && declared != DTypeToOnnx(type.dtype)) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": declared with element type number ", declared, ", but it is ", type.ToString()));
      }
      outputs.push_back(Output{found->second, info.name()});
    }
    return outputs;
  }

  onnx::GraphProto& graph_;
  Initializers& initializers_;
  const int64_t ir_version_;
  const ImportOptions& options_;
  ImportState state_;
  std::vector<Value> inputs_;
  absl::flat_hash_map<std::string, Value> values_;
  absl::flat_hash_map<std::string, int> producers_;  // positions of nodes
  absl::flat_hash_set<std::string> unknown_;         // tensors behind uses that are not supported
  UnsupportedList unsupported_;
  std::map<std::string, int64_t> dims_;              // the symbolic ones of the inputs
  std::vector<std::vector<std::string>> dim_names_;  // by input and axis
  std::vector<std::string> notes_;
};

// The files of external data that a graph names, in nodes that are not read as well.
void AddExternalFiles(const onnx::TensorProto& tensor, std::set<std::string>* files) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") files->insert(entry.value());
  }
}

void AddExternalFiles(const onnx::GraphProto& graph, std::set<std::string>* files);

void AddExternalFiles(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, std::set<std::string>* files) {
  for (const onnx::NodeProto& node : nodes) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_t()) AddExternalFiles(attribute.t(), files);
      if (attribute.has_g()) AddExternalFiles(attribute.g(), files);
      for (const onnx::TensorProto& tensor : attribute.tensors()) AddExternalFiles(tensor, files);
      for (const onnx::GraphProto& graph : attribute.graphs()) AddExternalFiles(graph, files);
    }
  }
}

void AddExternalFiles(const onnx::GraphProto& graph, std::set<std::string>* files) {
  for (const onnx::TensorProto& tensor : graph.initializer()) AddExternalFiles(tensor, files);
  AddExternalFiles(graph.node(), files);
}

std::vector<std::string> ExternalFiles(const onnx::ModelProto& model) {
  std::set<std::string> files;
  AddExternalFiles(model.graph(), &files);
  for (const onnx::FunctionProto& function : model.functions()) AddExternalFiles(function.node(), &files);
  for (const onnx::TrainingInfoProto& training : model.training_info()) {
    AddExternalFiles(training.initialization(), &files);
    AddExternalFiles(training.algorithm(), &files);
  }
  return std::vector<std::string>(files.begin(), files.end());
}

}  // namespace

struct OnnxModel::Parts {
  std::string name, directory;
  std::shared_ptr<onnx::ModelProto> model;
  ModelMetadata metadata;
  std::vector<std::string> external_files;
  Initializers initializers;

  absl::Status Check() {
    metadata = MetadataOf(*model);
    RETURN_IF_ERROR(CheckModel(*model, metadata));
    external_files = ExternalFiles(*model);
    return absl::OkStatus();
  }

  absl::StatusOr<ImportedModel> Import(const ImportOptions& options) {
    ImportedModel imported;
    imported.metadata = metadata;
    imported.external_files = external_files;
    GraphImporter importer(*model, initializers, directory, OpsetOf(metadata), options);
    ASSIGN_OR_RETURN(imported.graph, importer.Import());
    imported.notes = importer.notes();
    imported.dims = importer.dims();
    imported.dim_names = importer.dim_names();
    if (options.keep_source) {
      imported.source =
          std::make_shared<const OnnxSource>(model, OpsetOf(metadata), imported.graph.arena(), importer.values());
    }
    if (model->training_info_size() > 0) imported.notes.push_back("the training graphs of the file are left aside");
    return imported;
  }
};

OnnxModel::OnnxModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
OnnxModel::OnnxModel(OnnxModel&&) noexcept = default;
OnnxModel& OnnxModel::operator=(OnnxModel&&) noexcept = default;
OnnxModel::~OnnxModel() = default;

absl::StatusOr<OnnxModel> OnnxModel::Open(const std::string& path) {
  auto parts = std::make_unique<Parts>();
  parts->name = path;
  parts->directory = FolderOf(path);
  ASSIGN_OR_RETURN(parts->model, ReadModel(path));
  RETURN_IF_ERROR(ErrorAt(path, parts->Check()));
  return OnnxModel(std::move(parts));
}

absl::StatusOr<OnnxModel> OnnxModel::FromBytes(const std::string& bytes, const std::string& name,
                                               const std::string& directory) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": larger than 2 GiB, where protobuf ends"));
  }
  auto parts = std::make_unique<Parts>();
  parts->name = name;
  parts->directory = directory;
  parts->model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  RETURN_IF_ERROR(ErrorAt(name, ParseModel(&stream, parts->model.get())));
  RETURN_IF_ERROR(ErrorAt(name, parts->Check()));
  return OnnxModel(std::move(parts));
}

absl::StatusOr<ImportedModel> OnnxModel::Import(const ImportOptions& options) {
  auto imported = parts_->Import(options);
  if (!imported.ok()) return ErrorAt(parts_->name, imported.status());
  return imported;
}

absl::StatusOr<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  ASSIGN_OR_RETURN(OnnxModel model, OnnxModel::Open(path));
  return model.Import(options);
}

absl::StatusOr<ImportedModel> ImportOnnxBytes(const std::string& bytes, const std::string& name,
                                              const std::string& directory, const ImportOptions& options) {
  ASSIGN_OR_RETURN(OnnxModel model, OnnxModel::FromBytes(bytes, name, directory));
  return model.Import(options);
}

absl::StatusOr<OnnxContents> InspectOnnx(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<onnx::ModelProto> model, ReadModel(path));
  OnnxContents contents;
  contents.metadata = MetadataOf(*model);
  RETURN_IF_ERROR(ErrorAt(path, CheckModel(*model, contents.metadata)));
  for (const onnx::NodeProto& node : model->graph().node()) {
    ++contents.operators[QualifiedName(node)];
    if (FindOperator(node, OpsetOf(contents.metadata)) == nullptr) ++contents.unsupported[QualifiedName(node)];
  }
  return contents;
}

}  // namespace rewright
