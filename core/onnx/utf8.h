// Text of a model as UTF-8, which ONNX prescribes: other programs, and JSON, cannot hold anything else.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "core/onnx/proto.h"

namespace rewright {

bool IsUtf8(const std::string& text);

// Whether all names and descriptions that are read of the model are UTF-8; an error shows the first that is not.
absl::Status CheckModelText(const onnx::ModelProto& model);

}  // namespace rewright
