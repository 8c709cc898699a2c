// Tensors in ONNX's protobuf form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/tensor.h"
#include "core/onnx/proto.h"

namespace rewright {

// The element type of that number; an error names the type ("FLOAT16") where there is none of ours.
absl::StatusOr<DType> DTypeFromOnnx(int64_t data_type);
int32_t DTypeToOnnx(DType dtype);

// Data may lie in the message or in a file inside `directory` (refused where that is empty). Its size is checked
// before memory is taken. Errors do not say which tensor.
absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto, const std::string& directory);
// The same; many elements stay where they are in memory, which the message then has no longer.
absl::StatusOr<Tensor> TakeTensor(onnx::TensorProto* proto, const std::string& directory);

// Name, type and shape alone.
void FillTensorType(const std::string& name, const TensorType& type, onnx::TensorProto* proto);
// With the elements as raw bytes.
void FillTensor(const std::string& name, const Tensor& tensor, onnx::TensorProto* proto);

}  // namespace rewright
