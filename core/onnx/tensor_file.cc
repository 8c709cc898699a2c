#include "core/onnx/tensor_file.h"

#include <limits>

#include "absl/strings/match.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/proto.h"
#include "core/onnx/tensor_proto.h"

namespace rewright {
namespace {

absl::StatusOr<Tensor> LoadTensorProto(const InputFile& file) {
  if (file.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("larger than 2 GiB, where protobuf ends");
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  RETURN_IF_ERROR(file.Read(0, file.size(), bytes.data()));
  onnx::TensorProto proto;
  if (!proto.ParseFromString(bytes)) return absl::InvalidArgumentError("not a TensorProto");
  return TensorFromProto(proto, /*directory=*/"");
}

}  // namespace

absl::StatusOr<Tensor> LoadTensorFile(const std::string& path) {
  const bool npy = absl::EndsWith(path, ".npy");
  if (!npy && !absl::EndsWith(path, ".pb")) return InvalidArgument(path, ": expected a file named .npy or .pb");
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  auto tensor = npy ? LoadNpy(file) : LoadTensorProto(file);
  if (!tensor.ok()) return ErrorAt(path, tensor.status());
  return tensor;
}

}  // namespace rewright
