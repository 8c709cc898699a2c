// Nodes that are kept as they were read: their operator is not known here, or not in that use, but the file says what
// their results are (docs/decisions/064).
#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/onnx/graph_importer.h"
#include "core/onnx/tensor_proto.h"
#include "core/ops/foreign.h"

namespace rewright {
namespace {

// What tells the node from all others of its file, and is the same in a file that was written from it: the operator,
// its attributes, which inputs are given, and the names of its results.
int64_t NumberOf(const onnx::NodeProto& node) {
  onnx::NodeProto identity = node;
  identity.clear_name();
  identity.clear_doc_string();
  identity.DiscardUnknownFields();  // newer parts of the format, such as the metadata of nodes
  if (IsOnnxDomain(node.domain())) identity.clear_domain();
  for (std::string& input : *identity.mutable_input()) {
    if (!input.empty()) input = "x";
  }
  constexpr size_t kDigits = 15;  // of four bits, so that the number is not negative
  return std::strtoll(Sha256::HexOf(identity.SerializeAsString()).substr(0, kDigits).c_str(), nullptr, 16);
}

}  // namespace

absl::StatusOr<TensorType> GraphImporter::DeclaredType(const std::string& name) {
  if (declared_.empty()) {
    for (const auto* list : {&graph_.value_info(), &graph_.output()}) {
      for (const onnx::ValueInfoProto& info : *list) declared_.emplace(info.name(), &info);
    }
  }
  const auto what = [&](const std::string& found) {
    return absl::UnimplementedError(absl::StrCat("its output \"", name, "\" ", found));
  };
  const auto found = declared_.find(name);
  if (found == declared_.end()) return what("has no declared type");
  if (!found->second->type().has_tensor_type()) return what("is declared as no tensor");
  const onnx::TypeProto::Tensor& tensor = found->second->type().tensor_type();
  if (!tensor.has_shape()) return what("has no declared shape");
  TensorType type;
  ASSIGN_OR_RETURN(type.dtype, DTypeFromOnnx(tensor.elem_type()));
  for (const onnx::TensorShapeProto::Dimension& dim : tensor.shape().dim()) {
    const auto size = dims_.find(dim.dim_param());
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      type.shape.push_back(dim.dim_value());
    } else if (size != dims_.end()) {
      type.shape.push_back(size->second);
    } else {
      return what(absl::StrCat("has a size that is not known (", dim.dim_param(), ")"));
    }
  }
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  return type;
}

absl::StatusOr<std::vector<Value>> GraphImporter::OpaqueValues(const onnx::NodeProto& node) {
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
  const OpDef& op = ForeignOp(QualifiedName(node));
  ASSIGN_OR_RETURN(const NodeId id, state_.arena->Add(op, std::move(operands), ForeignAttrs(NumberOf(node), types)));
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
  return all ? "; optimize, run and compare take the model with --device onnxruntime, which knows them" : "";
}

}  // namespace rewright
