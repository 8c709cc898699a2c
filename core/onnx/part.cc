#include "core/onnx/part.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/proto.h"
#include "core/onnx/serialization.h"
#include "core/onnx/source.h"

namespace rewright {
namespace {

// The names of tensors in the part, by those in the file.
class Renaming {
 public:
  explicit Renaming(const PartOfFile& part) {
    for (const auto& [input, type] : part.inputs) taken_.insert(input);
    for (const auto& [tensor, name] : part.outputs) {
      taken_.insert(name);
      names_[tensor] = name;
    }
    for (const auto& [tensor, input] : part.begin) names_[tensor] = input;
  }

  const std::string& operator()(const std::string& tensor) {
    const auto [found, is_new] = names_.emplace(tensor, tensor);
    if (!is_new || tensor.empty()) return found->second;
    while (!taken_.insert(found->second).second) found->second += "_inner";
    return found->second;
  }

  // In a node, and in the graphs that it holds.
  void Apply(onnx::NodeProto* node) {
    for (std::string& name : *node->mutable_input()) name = (*this)(name);
    for (std::string& name : *node->mutable_output()) name = (*this)(name);
    for (onnx::AttributeProto& attribute : *node->mutable_attribute()) {
      if (attribute.has_g()) ApplyToGraph(attribute.mutable_g());
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) ApplyToGraph(&graph);
    }
  }

 private:
  void ApplyToGraph(onnx::GraphProto* graph) {
    for (onnx::ValueInfoProto& info : *graph->mutable_input()) info.set_name((*this)(info.name()));
    for (onnx::TensorProto& tensor : *graph->mutable_initializer()) tensor.set_name((*this)(tensor.name()));
    for (onnx::NodeProto& node : *graph->mutable_node()) Apply(&node);
    for (onnx::ValueInfoProto& info : *graph->mutable_output()) info.set_name((*this)(info.name()));
    graph->clear_value_info();
  }

  std::map<std::string, std::string> names_;
  std::set<std::string> taken_;
};

}  // namespace

std::vector<FileNode> FileNodes(const OnnxSource& source) {
  std::vector<FileNode> nodes;
  for (int i = 0; i < source.num_nodes(); ++i) {
    const onnx::NodeProto& node = source.node(i);
    std::vector<std::string> attributes;
    for (const onnx::AttributeProto& attribute : node.attribute()) attributes.push_back(attribute.SerializeAsString());
    std::sort(attributes.begin(), attributes.end());
    FileNode one{QualifiedName(node), "", ReadsOf(node), {node.output().begin(), node.output().end()}};
    for (const std::string& attribute : attributes) absl::StrAppend(&one.attributes, attribute.size(), ":", attribute);
    nodes.push_back(std::move(one));
  }
  return nodes;
}

std::optional<Value> FileValue(const OnnxSource& source, const std::string& tensor) {
  return source.has(tensor) ? std::optional(source.value(tensor)) : std::nullopt;
}

std::vector<int> NodesOfPart(const std::vector<FileNode>& nodes, const PartOfFile& part) {
  std::set<std::string> needed;
  for (const auto& [tensor, name] : part.outputs) needed.insert(tensor);
  std::vector<int> taken;
  for (int i = static_cast<int>(nodes.size()) - 1; i >= 0; --i) {
    const FileNode& node = nodes[static_cast<size_t>(i)];
    const bool is_needed = std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& tensor) {
      return needed.contains(tensor) && !part.begin.contains(tensor);
    });
    if (!is_needed) continue;
    taken.push_back(i);
    needed.insert(node.reads.begin(), node.reads.end());
  }
  std::reverse(taken.begin(), taken.end());
  return taken;
}

absl::StatusOr<std::string> PartOfModel(const OnnxSource& source, const ModelMetadata& metadata, const Arena& arena,
                                        const PartOfFile& part) {
  onnx::ModelProto model;
  model.set_ir_version(std::max<int64_t>(metadata.ir_version, 4));  // initializers that are no inputs
  for (const auto& [domain, version] : metadata.opsets) {
    onnx::OperatorSetIdProto* opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  }
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name(metadata.graph_name.empty() ? "part" : metadata.graph_name);
  for (const auto& [name, type] : part.inputs) FillInfo(name, type, graph->add_input());
  const std::vector<FileNode> nodes = FileNodes(source);
  Renaming renamed(part);
  std::set<std::string> given, read;
  for (const int i : NodesOfPart(nodes, part)) {
    const FileNode& node = nodes[static_cast<size_t>(i)];
    given.insert(node.outputs.begin(), node.outputs.end());
    read.insert(node.reads.begin(), node.reads.end());
    onnx::NodeProto* copy = graph->add_node();
    *copy = source.node(i);
    // A tensor that an input replaces may be one of several results of a node: it is computed under another name.
    for (std::string& name : *copy->mutable_output()) {
      if (part.begin.contains(name)) name += "_computed";
    }
    renamed.Apply(copy);
  }
  for (const auto& [tensor, name] : part.outputs) {
    if (!source.has(tensor)) return absl::InvalidArgumentError(absl::StrCat("there is no tensor ", tensor));
    read.insert(tensor);
    FillInfo(name, arena.type(source.value(tensor)), graph->add_output());
  }
  for (const std::string& tensor : read) {
    if (tensor.empty() || given.contains(tensor) || part.begin.contains(tensor)) continue;
    const Tensor* elements = source.Elements(tensor);
    if (elements == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("the part reads ", tensor, ", which is not known"));
    }
    FillTensor(renamed(tensor), *elements, graph->add_initializer());
  }
  ASSIGN_OR_RETURN(const absl::Cord bytes, SerializeWith(std::move(model), {}));
  return std::string(bytes);
}

}  // namespace rewright
