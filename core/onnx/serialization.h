// Serialized models as protobuf messages, and the reverse; a written model's initializers are in it, or in a file
// beside it. For the sources of this folder only.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/base/files.h"
#include "core/onnx/proto.h"
#include "core/tensor/tensor.h"

namespace rewright {

// Parses a model. Error: the bytes are no model.
absl::Status ParseModel(google::protobuf::io::ZeroCopyInputStream* stream, onnx::ModelProto* model);

// Parses a model, but does not copy large elements that lie in one piece: they become tensors, by the name of their
// initializer, which keep the memory of `bytes`. In the message those initializers have no elements.
absl::Status ParseModel(const absl::Cord& bytes, onnx::ModelProto* model,
                        absl::flat_hash_map<std::string, Tensor>* initializers);

// Checks that all names and descriptions that are read of the model are UTF-8, as ONNX prescribes; other programs, and
// JSON, cannot hold anything else. The error shows the first one that is not.
absl::Status CheckModelText(const onnx::ModelProto& model);

using Initializers = std::vector<std::pair<std::string, Tensor>>;

int64_t TotalBytes(const Initializers& initializers);

// Serializes the model with these initializers and those that its graph has. The elements of large tensors are not
// copied. Error: more than 2 GiB.
absl::StatusOr<absl::Cord> SerializeWith(onnx::ModelProto model, const Initializers& initializers);

absl::Status WriteTo(OutputFile& file, const absl::Cord& bytes);

// Writes large tensors to `data`, which the model calls `location`. Errors: those of the file.
absl::Status AddExternal(const Initializers& initializers, const std::string& location, OutputFile& data,
                         onnx::GraphProto* graph);

}  // namespace rewright
