#include "core/onnx/export/remarks.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace rewright {

void CopyRemarks(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& from,
                 google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>* to) {
  absl::flat_hash_map<std::string, const onnx::ValueInfoProto*> by_name;
  for (const onnx::ValueInfoProto& info : from) by_name.emplace(info.name(), &info);
  for (onnx::ValueInfoProto& info : *to) {
    const auto found = by_name.find(info.name());
    if (found == by_name.end()) continue;
    const onnx::ValueInfoProto& read = *found->second;
    if (read.has_doc_string()) info.set_doc_string(read.doc_string());
    CopyUnknown(read, &info);
    if (read.type().has_denotation()) info.mutable_type()->set_denotation(read.type().denotation());
    const auto& declared = read.type().tensor_type().shape();
    auto* const shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int axis = 0; axis < std::min(declared.dim_size(), shape->dim_size()); ++axis) {
      if (declared.dim(axis).has_denotation()) {
        shape->mutable_dim(axis)->set_denotation(declared.dim(axis).denotation());
      }
    }
  }
}

void CopyUnread(const OnnxSource& source, onnx::GraphProto* graph) {
  const auto unread = [&](const std::string& name) { return !source.has(name); };
  for (const onnx::ValueInfoProto& info : source.graph().input()) {
    if (unread(info.name())) *graph->add_input() = info;
  }
  for (const onnx::TensorProto& tensor : source.graph().initializer()) {
    if (unread(tensor.name())) *graph->add_initializer() = tensor;
  }
  for (const onnx::ValueInfoProto& info : source.graph().value_info()) {
    if (unread(info.name())) *graph->add_value_info() = info;
  }
}

void CopyFunctions(const OnnxSource& source, const std::vector<onnx::NodeProto>& nodes, onnx::ModelProto* model) {
  const auto& functions = source.functions();
  const bool called = std::any_of(nodes.begin(), nodes.end(),
                                  [&](const onnx::NodeProto& node) { return CallsFunction(node, functions); });
  if (called) *model->mutable_functions() = functions;
}

}  // namespace rewright
