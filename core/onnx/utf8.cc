#include "core/onnx/utf8.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

absl::Status Check(const std::string& text) {
  if (IsUtf8(text)) return absl::OkStatus();
  constexpr size_t kShown = 40;
  return InvalidArgument("holds text that is not UTF-8, \"", absl::CHexEscape(text.substr(0, kShown)), "\"; damaged?");
}

template <typename Texts>
absl::Status CheckAll(const Texts& texts) {
  for (const std::string& text : texts) RETURN_IF_ERROR(Check(text));
  return absl::OkStatus();
}

absl::Status CheckNode(const onnx::NodeProto& node) {
  for (const std::string* text : {&node.name(), &node.op_type(), &node.domain()}) RETURN_IF_ERROR(Check(*text));
  RETURN_IF_ERROR(CheckAll(node.input()));
  RETURN_IF_ERROR(CheckAll(node.output()));
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    RETURN_IF_ERROR(Check(attribute.name()));
    RETURN_IF_ERROR(Check(attribute.s()));
  }
  return absl::OkStatus();
}

absl::Status CheckInfo(const onnx::ValueInfoProto& info) {
  RETURN_IF_ERROR(Check(info.name()));
  for (const auto& dim : info.type().tensor_type().shape().dim()) RETURN_IF_ERROR(Check(dim.dim_param()));
  return absl::OkStatus();
}

absl::Status CheckTensor(const onnx::TensorProto& tensor) {
  RETURN_IF_ERROR(Check(tensor.name()));
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    RETURN_IF_ERROR(Check(entry.key()));
    RETURN_IF_ERROR(Check(entry.value()));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsUtf8(const std::string& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    const size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    unsigned code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if (byte(i + k) >> 6 != 2) return false;
      code = code << 6 | (byte(i + k) & 0x3fu);
    }
    // Neither longer than needed, nor half of a pair of UTF-16, nor beyond the last character.
    constexpr unsigned kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return false;
    i += length;
  }
  return true;
}

absl::Status CheckModelText(const onnx::ModelProto& model) {
  const onnx::GraphProto& graph = model.graph();
  for (const std::string* text : {&model.producer_name(), &model.producer_version(), &model.domain(),
                                  &model.doc_string(), &graph.name(), &graph.doc_string()}) {
    RETURN_IF_ERROR(Check(*text));
  }
  for (const onnx::StringStringEntryProto& property : model.metadata_props()) {
    RETURN_IF_ERROR(Check(property.key()));
    RETURN_IF_ERROR(Check(property.value()));
  }
  for (const onnx::OperatorSetIdProto& opset : model.opset_import()) RETURN_IF_ERROR(Check(opset.domain()));
  for (const onnx::ValueInfoProto& info : graph.input()) RETURN_IF_ERROR(CheckInfo(info));
  for (const onnx::ValueInfoProto& info : graph.output()) RETURN_IF_ERROR(CheckInfo(info));
  for (const onnx::TensorProto& tensor : graph.initializer()) RETURN_IF_ERROR(CheckTensor(tensor));
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer())
    RETURN_IF_ERROR(CheckTensor(tensor.values()));
  for (const onnx::NodeProto& node : graph.node()) RETURN_IF_ERROR(CheckNode(node));
  return absl::OkStatus();
}

}  // namespace rewright
