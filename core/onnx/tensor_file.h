// Single tensors in files: NumPy's .npy (core/ir/npy.h) and ONNX's .pb (a TensorProto).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/ir/npy.h"
#include "core/ir/tensor.h"

namespace rewright {

// By the extension, .npy or .pb. The file is untrusted: its sizes are checked before memory is taken.
absl::StatusOr<Tensor> LoadTensorFile(const std::string& path);

}  // namespace rewright
