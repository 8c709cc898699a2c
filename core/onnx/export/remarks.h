// Copies parts of the file that was read which say nothing of its computation. For the sources of this folder only.
#pragma once

#include <vector>

#include "core/onnx/proto.h"
#include "core/onnx/source.h"

namespace rewright {

// Copies fields that are newer than the version of ONNX read here: metadata of graphs and tensors.
template <typename Message>
void CopyUnknown(const Message& from, Message* to) {
  to->GetReflection()->MutableUnknownFields(to)->MergeFrom(from.GetReflection()->GetUnknownFields(from));
}

// Copies the file's remarks about tensors besides their types: documentation, and the meaning of their axes.
void CopyRemarks(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& from,
                 google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>* to);

// Copies the file's declarations of tensors that only the tail knows: inputs and weights of other types, results of
// the tail.
void CopyUnread(const OnnxSource& source, onnx::GraphProto* graph);

// Copies the functions of the file, with those that they call, if one of the nodes calls one.
void CopyFunctions(const OnnxSource& source, const std::vector<onnx::NodeProto>& nodes, onnx::ModelProto* model);

}  // namespace rewright
