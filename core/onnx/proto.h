// ONNX's protobuf messages: the generated classes, attributes and tensors in that form. No header outside of this
// folder includes it.
#pragma once

#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"

namespace rewright {

// Returns null if the node has no attribute of that name.
inline const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

// Returns the element type of that number; an error names the type ("FLOAT16") if it has no counterpart here.
absl::StatusOr<DType> DTypeFromOnnx(int64_t data_type);
int32_t DTypeToOnnx(DType dtype);

// Reads a tensor whose data lie in the message or in a file inside `directory` (refused if that is empty). The size is
// checked before memory is allocated. Errors do not name the tensor.
absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto, const std::string& directory);
// The least number of bytes at which elements are left in place, uncopied, if possible; malloc aligns a std::string of
// this size sufficiently.
inline constexpr size_t kManyElementBytes = size_t{1} << 20;
// Reads a sparse tensor with all its zeros. Further errors: indices outside of the tensor, repeated indices, or too
// little memory.
absl::StatusOr<Tensor> DenseFromProto(const onnx::SparseTensorProto& proto, const std::string& directory);
// Reads as TensorFromProto does, but leaves many elements in place: in memory, which is moved out of the message, or
// with `map` in a file of external data, which the tensor maps.
absl::StatusOr<Tensor> TakeTensor(onnx::TensorProto* proto, const std::string& directory, bool map = false);
// Returns the tensor type if `bytes` bytes of raw data are the elements in the layout of Tensor; else nothing, and
// TensorFromProto converts them or reports the error.
std::optional<TensorType> TypeOfRawData(const onnx::TensorProto& proto, size_t bytes);

// Fills in name, type and shape alone.
void FillTensorType(const std::string& name, const TensorType& type, onnx::TensorProto* proto);
void FillInfo(const std::string& name, const TensorType& type, onnx::ValueInfoProto* info);
// Fills in the elements as raw bytes, too.
void FillTensor(const std::string& name, const Tensor& tensor, onnx::TensorProto* proto);

}  // namespace rewright
