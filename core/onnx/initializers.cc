#include "core/onnx/initializers.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/serialized.h"
#include "core/onnx/tensor_proto.h"

namespace rewright {
namespace {

constexpr int64_t kMinExternalBytes = 1024;  // smaller tensors stay in the model
constexpr int64_t kExternalAlignment = 64;
constexpr uint32_t kLengthDelimited = 2;  // of protobuf's kinds of fields: bytes, strings, messages

}  // namespace

int64_t TotalBytes(const Initializers& initializers) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : initializers) bytes += tensor.num_bytes();
  return bytes;
}

absl::StatusOr<absl::Cord> SerializeWith(onnx::ModelProto model, const Initializers& initializers) {
  const std::unique_ptr<onnx::GraphProto> graph(model.release_graph());
  const auto begin_field = [](int number, size_t length) {
    std::string field;
    google::protobuf::io::StringOutputStream stream(&field);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteTag(static_cast<uint32_t>(number) << 3 | kLengthDelimited);
    coded.WriteVarint64(length);
    coded.Trim();
    return field;
  };
  std::vector<std::string> heads;  // of each initializer: all before its elements
  size_t graph_bytes = graph->ByteSizeLong();
  for (const auto& [name, tensor] : initializers) {
    onnx::TensorProto proto;
    FillTensorType(name, tensor.type(), &proto);
    const auto elements = static_cast<size_t>(tensor.num_bytes());
    const std::string head =
        absl::StrCat(proto.SerializeAsString(), begin_field(onnx::TensorProto::kRawDataFieldNumber, elements));
    heads.push_back(absl::StrCat(begin_field(onnx::GraphProto::kInitializerFieldNumber, head.size() + elements), head));
    graph_bytes += heads.back().size() + elements;
  }
  const std::string head = begin_field(onnx::ModelProto::kGraphFieldNumber, graph_bytes);
  const size_t size = model.ByteSizeLong() + head.size() + graph_bytes;
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError("the model is larger than 2 GiB, where protobuf ends");
  }
  std::string copied;
  const bool whole = model.AppendToString(&copied) && (copied.append(head), graph->AppendToString(&copied));
  if (!whole) return absl::InternalError("the model could not be serialized");
  absl::Cord bytes;
  for (size_t i = 0; i < initializers.size(); ++i) {
    const Tensor& tensor = initializers[i].second;
    const absl::string_view elements(static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.num_bytes()));
    copied.append(heads[i]);
    if (elements.size() < kManyElementBytes) {
      copied.append(elements.data(), elements.size());
    } else {
      bytes.Append(std::exchange(copied, ""));
      bytes.Append(absl::MakeCordFromExternal(elements, [tensor] {}));  // which keeps them
    }
  }
  bytes.Append(std::move(copied));
  return bytes;
}

absl::Status WriteTo(OutputFile& file, const absl::Cord& bytes) {
  for (absl::string_view chunk : bytes.Chunks()) {
    RETURN_IF_ERROR(file.Write(chunk.data(), static_cast<int64_t>(chunk.size())));
  }
  return absl::OkStatus();
}

absl::Status WriteSerialized(const absl::Cord& bytes, const std::string& path) {
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  RETURN_IF_ERROR(WriteTo(file, bytes));
  return file.Commit();
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
