// Reads model files, their metadata beside the graph, and the files that they name.
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <set>

#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/import/inline_functions.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"
#include "core/onnx/serialization.h"
#include "core/onnx/source.h"

namespace rewright {
namespace {

// ---------------------------------------------------------------- the model

absl::StatusOr<std::shared_ptr<onnx::ModelProto>> ReadModel(const std::string& path) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument(path, ": larger than 2 GiB, where protobuf ends; large weights belong into external data");
  }
  auto model = std::make_shared<onnx::ModelProto>();
  constexpr int kBlock = 1 << 20;  // bytes: weights are many
  google::protobuf::io::FileInputStream stream(file.descriptor(), kBlock);
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
    // A model that uses only other domains has no opset; its operators will be listed as unsupported.
    if (std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return IsOnnxDomain(node.domain()); })) {
      return absl::InvalidArgumentError("does not say its opset (of domain \"\")");
    }
  } else if (opset->second < kOldestOpset || opset->second > kNewestOpset) {
    return Unimplemented("opset ", opset->second, "; expected ", kOldestOpset, " to ", kNewestOpset);
  }
  if (model.graph().node_size() > kMaxNodes) {
    return InvalidArgument(model.graph().node_size(), " nodes; at most ", kMaxNodes);
  }
  return absl::OkStatus();
}

// Makes sparse weights ordinary ones, whose elements are in `initializers`.
absl::Status FillSparseWeights(const std::string& directory, onnx::GraphProto* graph,
                               InitializersByName* initializers) {
  for (const onnx::SparseTensorProto& sparse : graph->sparse_initializer()) {
    const std::string& name = sparse.values().name();
    absl::StatusOr<Tensor> tensor = DenseFromProto(sparse, directory);
    if (!tensor.ok()) return ErrorAt(absl::StrCat("sparse initializer \"", name, "\""), tensor.status());
    initializers->emplace(name, *std::move(tensor));
    graph->add_initializer()->set_name(name);
  }
  graph->clear_sparse_initializer();
  return absl::OkStatus();
}

int64_t OpsetOf(const ModelMetadata& metadata) {
  const auto found = metadata.opsets.find("");
  return found == metadata.opsets.end() ? kOldestOpset : found->second;
}

// Returns the files of external data that a graph names, also in nodes that are not read.
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
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
    AddExternalFiles(tensor.values(), files);
    AddExternalFiles(tensor.indices(), files);
  }
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

// A model that was read.
struct ModelParts {
  std::string name, directory;
  bool map = false;  // weights stay in files of external data
  std::shared_ptr<onnx::ModelProto> model;
  ModelMetadata metadata;
  std::vector<std::string> external_files;
  InitializersByName initializers;

  absl::Status Check() {
    metadata = MetadataOf(*model);
    RETURN_IF_ERROR(CheckModel(*model, metadata));
    external_files = ExternalFiles(*model);
    if (model->functions_size() > 0) {
      RETURN_IF_ERROR(InlineFunctions(model.get()));
      metadata = MetadataOf(*model);  // with the domains of bodies
      RETURN_IF_ERROR(CheckModel(*model, metadata));
    }
    return FillSparseWeights(directory, model->mutable_graph(), &initializers);
  }

  // Reads a model from `bytes` bytes in memory, which `parse` parses.
  absl::Status Read(size_t bytes, const std::string& from, const std::function<absl::Status()>& parse) {
    if (bytes > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return InvalidArgument(from, ": larger than 2 GiB, where protobuf ends");
    }
    name = from;
    model = std::make_shared<onnx::ModelProto>();
    RETURN_IF_ERROR(ErrorAt(name, parse()));
    return ErrorAt(name, Check());
  }

  absl::StatusOr<ImportedModel> Import(const ImportOptions& options) {
    GraphImporter importer(*model, initializers, directory, map, OpsetOf(metadata), options);
    absl::StatusOr<ImportedModel> imported = importer.Import();
    if (!imported.ok()) return ErrorAt(name, imported.status());
    std::map<std::string, Tensor> defaults = std::move(imported->metadata.defaults);
    imported->metadata = metadata;
    imported->metadata.defaults = std::move(defaults);
    imported->external_files = external_files;
    const auto& nodes = model->graph().node();
    const std::set<int> tail(importer.tail().begin(), importer.tail().end());
    for (int i = 0; i < nodes.size(); ++i) {
      if (!tail.contains(i)) imported->has_subgraphs |= HoldsSubgraph(nodes[i]);
    }
    if (options.keep_source) {
      imported->source = std::make_shared<const OnnxSource>(model, OpsetOf(metadata), imported->graph.arena(),
                                                            importer.values(), importer.tail());
    }
    if (model->training_info_size() > 0) imported->notes.emplace_back("the training graphs of the file are left aside");
    return imported;
  }
};

OnnxModel::OnnxModel(std::unique_ptr<ModelParts> parts) : parts_(std::move(parts)) {}
OnnxModel::OnnxModel(OnnxModel&&) noexcept = default;
OnnxModel& OnnxModel::operator=(OnnxModel&&) noexcept = default;
OnnxModel::~OnnxModel() = default;

absl::StatusOr<OnnxModel> OnnxModel::Open(const std::string& path, bool map) {
  auto parts = std::make_unique<ModelParts>();
  parts->map = map;
  parts->name = path;
  parts->directory = FolderOf(path);
  ASSIGN_OR_RETURN(parts->model, ReadModel(path));
  RETURN_IF_ERROR(ErrorAt(path, parts->Check()));
  return OnnxModel(std::move(parts));
}

absl::StatusOr<OnnxModel> OnnxModel::FromBytes(const std::string& bytes, const std::string& name,
                                               const std::string& directory) {
  auto parts = std::make_unique<ModelParts>();
  parts->directory = directory;
  RETURN_IF_ERROR(parts->Read(bytes.size(), name, [&] {
    google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    return ParseModel(&stream, parts->model.get());
  }));
  return OnnxModel(std::move(parts));
}

absl::StatusOr<ImportedModel> OnnxModel::Import(const ImportOptions& options) { return parts_->Import(options); }

absl::StatusOr<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options) {
  ASSIGN_OR_RETURN(OnnxModel model, OnnxModel::Open(path));
  return model.Import(options);
}

absl::StatusOr<ImportedModel> ImportOnnxBytes(const std::string& bytes, const std::string& name,
                                              const std::string& directory, const ImportOptions& options) {
  ASSIGN_OR_RETURN(OnnxModel model, OnnxModel::FromBytes(bytes, name, directory));
  return model.Import(options);
}

absl::StatusOr<ImportedModel> ImportSerialized(const absl::Cord& bytes, const std::string& name,
                                               const ImportOptions& options) {
  ModelParts parts;
  RETURN_IF_ERROR(
      parts.Read(bytes.size(), name, [&] { return ParseModel(bytes, parts.model.get(), &parts.initializers); }));
  return parts.Import(options);
}

absl::StatusOr<OnnxContents> InspectOnnx(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<onnx::ModelProto> model, ReadModel(path));
  OnnxContents contents;
  RETURN_IF_ERROR(ErrorAt(path, InlineFunctions(model.get())));
  contents.metadata = MetadataOf(*model);
  RETURN_IF_ERROR(ErrorAt(path, CheckModel(*model, contents.metadata)));
  for (const onnx::NodeProto& node : model->graph().node()) {
    ++contents.operators[QualifiedName(node)];
    if (FindOperator(node, OpsetOf(contents.metadata)) == nullptr && !IsControlFlow(node))
      ++contents.unsupported[QualifiedName(node)];
  }
  return contents;
}

}  // namespace rewright
