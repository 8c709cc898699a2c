// The initializers of a written model: in the model, or in a file beside it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "core/base/files.h"
#include "core/ir/tensor.h"
#include "core/onnx/proto.h"

namespace rewright {

using Initializers = std::vector<std::pair<std::string, Tensor>>;

int64_t TotalBytes(const Initializers& initializers);

// The bytes of the model with these initializers besides those that its graph has. Of large ones the elements stay
// where the tensors have them. Errors: more than 2 GiB.
absl::StatusOr<absl::Cord> SerializeWith(onnx::ModelProto model, const Initializers& initializers);

absl::Status WriteTo(OutputFile& file, const absl::Cord& bytes);

// Large tensors go to `data`, which the model calls `location`. Errors: those of the file.
absl::Status AddExternal(const Initializers& initializers, const std::string& location, OutputFile& data,
                         onnx::GraphProto* graph);

}  // namespace rewright
