#include "core/onnx/initializers.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/tensor_proto.h"

namespace rewright {
namespace {

constexpr int64_t kMinExternalBytes = 1024;  // smaller tensors stay in the model
constexpr int64_t kExternalAlignment = 64;

}  // namespace

int64_t TotalBytes(const Initializers& initializers) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : initializers) bytes += tensor.num_bytes();
  return bytes;
}

void AddInline(const Initializers& initializers, onnx::GraphProto* graph) {
  for (const auto& [name, tensor] : initializers) FillTensor(name, tensor, graph->add_initializer());
}

absl::Status AddExternal(const Initializers& initializers, const std::string& location, OutputFile& data,
                         onnx::GraphProto* graph) {
  const std::string zeros(kExternalAlignment, '\0');
  int64_t offset = 0;
  for (const auto& [name, tensor] : initializers) {
    onnx::TensorProto* proto = graph->add_initializer();
    if (tensor.num_bytes() < kMinExternalBytes) {
      FillTensor(name, tensor, proto);
      continue;
    }
    const int64_t gap = (kExternalAlignment - offset % kExternalAlignment) % kExternalAlignment;
    RETURN_IF_ERROR(data.Write(zeros.data(), gap));
    offset += gap;
    RETURN_IF_ERROR(data.Write(tensor.data(), tensor.num_bytes()));
    FillTensorType(name, tensor.type(), proto);
    proto->set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair<std::string, std::string>("location", location),
                                     {"offset", absl::StrCat(offset)},
                                     {"length", absl::StrCat(tensor.num_bytes())}}) {
      onnx::StringStringEntryProto* entry = proto->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    offset += tensor.num_bytes();
  }
  return absl::OkStatus();
}

}  // namespace rewright
