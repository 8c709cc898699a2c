#include "core/onnx/import/inline_functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/source.h"

namespace rewright {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = absl::flat_hash_map<std::string, std::string>;
using Attributes = absl::flat_hash_map<std::string, const onnx::AttributeProto*>;

constexpr int kMostNestedCalls = 32;

std::string DomainOf(const std::string& domain) { return IsOnnxDomain(domain) ? "" : domain; }

std::map<std::string, int64_t> VersionsOf(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, int64_t> versions;
  for (const onnx::OperatorSetIdProto& import : imports) versions[DomainOf(import.domain())] = import.version();
  return versions;
}

// Numbers of fields of the format that the messages here lack.
constexpr int kFunctionDefaults = 11, kFunctionOverload = 13, kNodeOverload = 8;

template <typename Message>
bool HasField(const Message& message, int number) {
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    if (fields.field(i).number() == number) return true;
  }
  return false;
}

// Returns the default values of the attributes that a call may omit.
std::vector<onnx::AttributeProto> DefaultsOf(const onnx::FunctionProto& function) {
  std::vector<onnx::AttributeProto> defaults;
  const auto& fields = function.GetReflection()->GetUnknownFields(function);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != kFunctionDefaults || field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    if (!defaults.emplace_back().ParseFromString(field.length_delimited())) defaults.pop_back();
  }
  return defaults;
}

// True if each node means the same in the model as in the function.
bool MeanTheSame(const Nodes& nodes, int64_t from, int64_t to) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const onnx::NodeProto& node) {
    const auto holds = [&](const onnx::AttributeProto& attribute) {
      return !attribute.has_g() || MeanTheSame(attribute.g().node(), from, to);
    };
    return (!IsOnnxDomain(node.domain()) || (from <= to && MeansTheSame(node, from, to))) &&
           std::all_of(node.attribute().begin(), node.attribute().end(), holds);
  });
}

class Inliner {
 public:
  explicit Inliner(onnx::ModelProto* model) : model_(model), versions_(VersionsOf(model->opset_import())) {
    for (const onnx::FunctionProto& function : model->functions()) {
      functions_.emplace(std::pair(DomainOf(function.domain()), function.name()), &function);
    }
    TakeNames(model->graph());
  }

  absl::Status Run() {
    Nodes nodes;
    nodes.Swap(model_->mutable_graph()->mutable_node());
    RETURN_IF_ERROR(Inline(std::move(nodes), 0, model_->mutable_graph()->mutable_node()));
    for (const auto& [domain, version] : added_) {
      onnx::OperatorSetIdProto* import = model_->add_opset_import();
      import->set_domain(domain);
      import->set_version(version);
    }
    return absl::OkStatus();
  }

 private:
  void TakeNames(const onnx::GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) taken_.insert(tensor.name());
    for (const auto& tensor : graph.sparse_initializer()) taken_.insert(tensor.values().name());
    for (const auto& info : graph.input()) taken_.insert(info.name());
    for (const onnx::NodeProto& node : graph.node()) {
      taken_.insert(node.output().begin(), node.output().end());
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) TakeNames(attribute.g());
      }
    }
  }

  std::string NewName(const std::string& name) {
    std::string given = name;
    int& number = numbers_[name];
    while (!taken_.insert(given).second) given = absl::StrCat(name, "_", ++number);
    return given;
  }

  // Returns the function that the node calls; null if it calls none, or one that stays a call.
  const onnx::FunctionProto* Called(const onnx::NodeProto& node) const {
    const auto found = functions_.find({DomainOf(node.domain()), node.op_type()});
    if (found == functions_.end()) return nullptr;
    const onnx::FunctionProto& function = *found->second;
    if (HasField(function, kFunctionOverload) || HasField(node, kNodeOverload)) return nullptr;  // one of several
    if (function.node_size() == 0 || function.output_size() < node.output_size() ||
        function.input_size() < node.input_size()) {
      return nullptr;
    }
    for (const auto& [domain, version] : VersionsOf(function.opset_import())) {
      const auto here = versions_.find(domain);
      if (here == versions_.end() || here->second == version) continue;
      if (!domain.empty() || !MeanTheSame(function.node(), version, here->second)) return nullptr;
    }
    return &function;
  }

  absl::Status Inline(Nodes nodes, int depth, Nodes* to) {
    for (onnx::NodeProto& node : nodes) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (!attribute.has_g()) continue;
        Nodes inside;
        inside.Swap(attribute.mutable_g()->mutable_node());
        RETURN_IF_ERROR(Inline(std::move(inside), depth, attribute.mutable_g()->mutable_node()));
      }
      const onnx::FunctionProto* const function = Called(node);
      if (function == nullptr) {
        if (depth > 0 && ++added_nodes_ > kMaxNodes) {
          return InvalidArgument("the functions of the file come to more than ", kMaxNodes, " nodes");
        }
        to->Add()->Swap(&node);
        continue;
      }
      if (depth >= kMostNestedCalls) {
        return InvalidArgument(NodeText(node), ": functions that call functions, more than ", kMostNestedCalls,
                               " deep");
      }
      for (const auto& [domain, version] : VersionsOf(function->opset_import())) {
        if (versions_.emplace(domain, version).second) added_.emplace(domain, version);
      }
      RETURN_IF_ERROR(Inline(BodyOf(*function, node), depth + 1, to));
    }
    return absl::OkStatus();
  }

  // Returns the nodes of the function, with the node's inputs and outputs.
  Nodes BodyOf(const onnx::FunctionProto& function, const onnx::NodeProto& node) {
    Names names;
    Attributes attributes;
    const std::vector<onnx::AttributeProto> defaults = DefaultsOf(function);
    for (const onnx::AttributeProto& attribute : defaults) attributes[attribute.name()] = &attribute;
    for (const onnx::AttributeProto& attribute : node.attribute()) attributes[attribute.name()] = &attribute;
    for (int i = 0; i < function.input_size(); ++i) {
      names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    }
    const std::string prefix = node.name().empty() ? node.op_type() : node.name();
    std::vector<std::pair<std::string, std::string>> same;  // outputs that are inputs, or twice there
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      const auto [known, added] = names.emplace(function.output(i), node.output(i));
      if (!added) same.emplace_back(known->second, node.output(i));
    }
    Nodes body = function.node();
    for (onnx::NodeProto& inner : body) {
      if (!inner.name().empty()) inner.set_name(absl::StrCat(prefix, "/", inner.name()));
      Rename(prefix, attributes, &names, &inner);
    }
    for (const auto& [from, to] : same) {
      onnx::NodeProto* copy = body.Add();
      copy->set_op_type("Identity");
      copy->add_input(from);
      copy->add_output(to);
    }
    return body;
  }

  // Renames tensors of the body, also in graphs that its nodes hold, and replaces references to attributes by those of
  // the call.
  void Rename(const std::string& prefix, const Attributes& attributes, Names* names, onnx::NodeProto* node) {
    for (std::string& input : *node->mutable_input()) {
      if (const auto found = names->find(input); found != names->end()) input = found->second;
    }
    std::vector<onnx::AttributeProto> kept;
    for (onnx::AttributeProto& attribute : *node->mutable_attribute()) {
      if (!attribute.ref_attr_name().empty()) {
        const auto given = attributes.find(attribute.ref_attr_name());
        if (given == attributes.end()) continue;  // the operator's default
        const std::string name = attribute.name();
        attribute = *given->second;
        attribute.set_name(name);
      } else if (attribute.has_g()) {
        RenameGraph(prefix, attributes, *names, attribute.mutable_g());
      }
      kept.push_back(attribute);
    }
    node->clear_attribute();
    for (onnx::AttributeProto& attribute : kept) node->add_attribute()->Swap(&attribute);
    for (std::string& output : *node->mutable_output()) output = Given(prefix, output, names);
  }

  // Returns the new name of a tensor that the body gives.
  std::string Given(const std::string& prefix, const std::string& name, Names* names) {
    if (name.empty()) return name;
    const auto [found, added] = names->emplace(name, "");
    if (added) found->second = NewName(absl::StrCat(prefix, "/", name));
    return found->second;
  }

  // Renames the names that the graph defines; they are its own.
  void RenameGraph(const std::string& prefix, const Attributes& attributes, Names names, onnx::GraphProto* graph) {
    for (onnx::ValueInfoProto& input : *graph->mutable_input()) {
      names.erase(input.name());
      input.set_name(Given(prefix, input.name(), &names));
    }
    for (onnx::TensorProto& tensor : *graph->mutable_initializer()) {
      names.erase(tensor.name());
      tensor.set_name(Given(prefix, tensor.name(), &names));
    }
    for (onnx::NodeProto& node : *graph->mutable_node()) Rename(prefix, attributes, &names, &node);
    for (onnx::ValueInfoProto& output : *graph->mutable_output()) {
      if (const auto found = names.find(output.name()); found != names.end()) output.set_name(found->second);
    }
    graph->clear_value_info();
  }

  onnx::ModelProto* const model_;
  std::map<std::string, int64_t> versions_, added_;  // by domain; those of bodies that the model had not
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
  absl::flat_hash_set<std::string> taken_;
  absl::flat_hash_map<std::string, int> numbers_;  // the last number that was put behind a name
  int64_t added_nodes_ = 0;
};

}  // namespace

absl::Status InlineFunctions(onnx::ModelProto* model) {
  if (model->functions_size() == 0) return absl::OkStatus();
  return Inliner(model).Run();
}

}  // namespace rewright
