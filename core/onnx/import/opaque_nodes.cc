// Nodes that are kept as read: their operator, or its use, is not supported here, but the file declares the types of
// their results (docs/decisions/064).
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/proto.h"
#include "core/onnx/source.h"
#include "core/ops/foreign.h"

namespace rewright {
namespace {

using Functions = google::protobuf::RepeatedPtrField<onnx::FunctionProto>;

// Hashes the parts of a node that identify it in its file and in a file written from it: the operator, its attributes,
// which inputs are given, the names of its results, and the functions of the file if it calls one.
int64_t NumberOf(const onnx::NodeProto& node, const Functions& functions) {
  onnx::NodeProto identity = node;
  identity.clear_name();
  identity.clear_doc_string();
  identity.DiscardUnknownFields();  // newer parts of the format, such as the metadata of nodes
  if (IsOnnxDomain(node.domain())) identity.clear_domain();
  for (std::string& input : *identity.mutable_input()) {
    if (!input.empty()) input = "x";
  }
  std::string text = identity.SerializeAsString();
  if (CallsFunction(node, functions)) {
    for (const onnx::FunctionProto& function : functions) absl::StrAppend(&text, function.SerializeAsString());
  }
  constexpr size_t kDigits = 15;  // of four bits, so that the number is not negative
  return std::strtoll(Sha256::HexOf(text).substr(0, kDigits).c_str(), nullptr, 16);
}

// Renames the given tensors to prefix0, prefix1, ..
void NameByPlace(const std::string& prefix, google::protobuf::RepeatedPtrField<std::string>* tensors) {
  int given = 0;
  for (std::string& name : *tensors) {
    if (!name.empty()) name = absl::StrCat(prefix, given++);
  }
}

std::string Alone(const onnx::NodeProto& node, const onnx::ModelProto& model) {
  onnx::ModelProto alone;
  alone.set_ir_version(model.ir_version());
  *alone.mutable_opset_import() = model.opset_import();
  if (CallsFunction(node, model.functions())) *alone.mutable_functions() = model.functions();
  alone.mutable_graph()->set_name("node");
  onnx::NodeProto& kept = *alone.mutable_graph()->add_node();
  kept = node;
  NameByPlace("x", kept.mutable_input());
  NameByPlace("y", kept.mutable_output());
  return alone.SerializeAsString();
}

}  // namespace

absl::StatusOr<std::string> OpaqueNodeModel(const OpaqueNode& node, const std::vector<TensorType>& operands,
                                            const std::vector<const Tensor*>& known,
                                            const std::vector<TensorType>& outputs) {
  onnx::ModelProto model;
  if (!model.ParseFromString(node.alone)) return absl::InternalError(node.node + ": its model cannot be read");
  onnx::GraphProto& graph = *model.mutable_graph();
  for (size_t k = 0; k < operands.size(); ++k) {
    const std::string name = absl::StrCat("x", k);
    if (known[k] != nullptr) {
      FillTensor(name, *known[k], graph.add_initializer());
    } else {
      FillInfo(name, operands[k], graph.add_input());
    }
  }
  for (size_t k = 0; k < outputs.size(); ++k) FillInfo(absl::StrCat("y", k), outputs[k], graph.add_output());
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(node.node + ": what it reads is larger than 2 GiB, where protobuf ends");
  }
  return model.SerializeAsString();
}

absl::StatusOr<TensorType> GraphImporter::DeclaredType(const std::string& name) {
  if (declared_.empty()) {
    for (const auto* list : {&graph_.value_info(), &graph_.output()}) {
      for (const onnx::ValueInfoProto& info : *list) declared_.emplace(info.name(), &info);
    }
  }
  const auto what = [&](const std::string& found) { return Unimplemented("its output \"", name, "\" ", found); };
  const auto found = declared_.find(name);
  if (found == declared_.end()) return what("has no declared type");
  if (!found->second->type().has_tensor_type()) return what("is declared as no tensor");
  const onnx::TypeProto::Tensor& tensor = found->second->type().tensor_type();
  if (!tensor.has_shape()) return what("has no declared shape");
  TensorType type;
  ASSIGN_OR_RETURN(type.dtype, DTypeFromOnnx(tensor.elem_type()));
  for (const onnx::TensorShapeProto::Dimension& dim : tensor.shape().dim()) {
    const auto size = result_.dims.find(dim.dim_param());
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      type.shape.push_back(dim.dim_value());
    } else if (size != result_.dims.end()) {
      type.shape.push_back(size->second);
    } else {
      return what(absl::StrCat("has a size that is not known (", dim.dim_param(), ")"));
    }
  }
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  return type;
}

absl::StatusOr<std::vector<Value>> GraphImporter::OpaqueValues(const onnx::NodeProto& node, const std::string& why) {
  if (node.op_type().empty()) return absl::UnimplementedError("it names no operator");
  if (HoldsSubgraph(node)) return absl::UnimplementedError("it holds a graph");
  std::vector<TensorType> types;
  for (const std::string& name : node.output()) {
    if (name.empty()) continue;
    ASSIGN_OR_RETURN(types.emplace_back(), DeclaredType(name));
  }
  std::vector<Value> operands;
  for (const std::string& name : node.input()) {
    if (name.empty()) continue;
    ASSIGN_OR_RETURN(operands.emplace_back(), Operand(name));
  }
  if (operands.empty()) operands.push_back(state_.arena->AddConstant(Tensor::Int64s({})));  // one there must be
  const int64_t number = NumberOf(node, model_.functions());
  const OpDef* const op = ForeignOp(QualifiedName(node));
  if (op == nullptr) return absl::UnimplementedError("its name is too long, or there are too many operators");
  ASSIGN_OR_RETURN(const NodeId id, state_.arena->Add(*op, std::move(operands), ForeignAttrs(number, types)));
  result_.opaque.push_back({NodeText(node), why, number, Alone(node, model_)});
  std::vector<Value> values;
  int32_t given = 0;
  for (const std::string& name : node.output()) values.push_back(name.empty() ? Value{} : Value{id, given++});
  return values;
}

std::string GraphImporter::HintOf(const std::vector<const onnx::NodeProto*>& nodes) {
  const bool all = !options_.keep_unknown && !nodes.empty() &&
                   std::all_of(nodes.begin(), nodes.end(), [&](const onnx::NodeProto* node) {
                     return !HoldsSubgraph(*node) &&
                            std::all_of(node->output().begin(), node->output().end(), [&](const std::string& name) {
                              return name.empty() || DeclaredType(name).ok();
                            });
                   });
  return all ? "; where onnxruntime is at hand, which knows them, the devices cpu and onnxruntime take the model" : "";
}

}  // namespace rewright
