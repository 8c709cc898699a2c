// Serialized models as protobuf messages. For the sources of this folder only.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "core/ir/tensor.h"
#include "core/onnx/proto.h"

namespace rewright {

// Error: what is read is no model.
absl::Status ParseModel(google::protobuf::io::ZeroCopyInputStream* stream, onnx::ModelProto* model);

// The same, but elements of many bytes that lie in one piece stay where they are: they become tensors, by the name of
// their initializer, which keep the memory of `bytes`. In the message those initializers have no elements.
absl::Status ParseModel(const absl::Cord& bytes, onnx::ModelProto* model,
                        absl::flat_hash_map<std::string, Tensor>* initializers);

}  // namespace rewright
