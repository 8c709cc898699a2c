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

// Null where the node has none of that name.
inline const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

// The element type of that number; an error names the type ("FLOAT16") where there is none of ours.
absl::StatusOr<DType> DTypeFromOnnx(int64_t data_type);
int32_t DTypeToOnnx(DType dtype);

// Data may lie in the message or in a file inside `directory` (refused where that is empty). Its size is checked
// before memory is taken. Errors do not say which tensor.
absl::StatusOr<Tensor> TensorFromProto(const onnx::TensorProto& proto, const std::string& directory);
// From so many bytes on elements are not copied where they need not be. std::string aligns so many as malloc does.
inline constexpr size_t kManyElementBytes = size_t{1} << 20;
// With all its zeros. Errors also: indices outside of the tensor, twice the same, or too little memory.
absl::StatusOr<Tensor> DenseFromProto(const onnx::SparseTensorProto& proto, const std::string& directory);
// The same as TensorFromProto; many elements stay where they are: in memory, which the message then has no longer, and
// with `map` in a file of external data, which the tensor maps.
absl::StatusOr<Tensor> TakeTensor(onnx::TensorProto* proto, const std::string& directory, bool map = false);
// The type where so many bytes of raw data are the elements as a tensor of ours has them; else nothing: TensorFromProto
// converts them, or says what is wrong.
std::optional<TensorType> TypeOfRawData(const onnx::TensorProto& proto, size_t bytes);

// Name, type and shape alone.
void FillTensorType(const std::string& name, const TensorType& type, onnx::TensorProto* proto);
void FillInfo(const std::string& name, const TensorType& type, onnx::ValueInfoProto* info);
// With the elements as raw bytes.
void FillTensor(const std::string& name, const Tensor& tensor, onnx::TensorProto* proto);

}  // namespace rewright
