#include "core/onnx/export/writer.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/onnx/proto.h"

namespace rewright {
namespace {

constexpr int64_t kMinCompactElements = 1024;  // smaller uniform tensors are written as they are

bool IsUniform(const Tensor& tensor) {
  const size_t size = DTypeSize(tensor.dtype());
  const auto* bytes = static_cast<const char*>(tensor.data());
  for (int64_t i = 1; i < tensor.num_elements(); ++i) {
    if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) return false;
  }
  return true;
}

}  // namespace

std::string OnnxWriter::UniqueName(const std::string& wanted) {
  if (!wanted.empty() && Reserve(wanted)) return wanted;
  for (int i = 1;; ++i) {
    std::string name = absl::StrCat(wanted.empty() ? "value" : wanted, "_", i);
    if (Reserve(name)) return name;
  }
}

void OnnxWriter::AddNode(absl::string_view op_type, absl::Span<const std::string> inputs,
                         absl::Span<const std::string> outputs, const OnnxAttrs& attrs) {
  onnx::NodeProto& node = nodes_.emplace_back();
  node.set_op_type(std::string(op_type));
  node.set_name(NumberedNodeName(node.op_type()));
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  for (const auto& [name, value] : attrs) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(*integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      attribute.set_type(onnx::AttributeProto::FLOAT);
      attribute.set_f(static_cast<float>(*real));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      attribute.set_type(onnx::AttributeProto::STRING);
      attribute.set_s(*text);
    } else {
      attribute.set_type(onnx::AttributeProto::INTS);
      for (int64_t item : std::get<std::vector<int64_t>>(value)) attribute.add_ints(item);
    }
  }
}

void OnnxWriter::AddCopy(onnx::NodeProto node) {
  if (!node.name().empty() && !copied_.insert(node.name()).second) node.set_name(NumberedNodeName(node.name()));
  nodes_.push_back(std::move(node));
}

std::string OnnxWriter::NumberedNodeName(const std::string& stem) {
  for (;;) {
    std::string name = absl::StrCat(stem, "_", node_counts_[stem]++);
    if (!file_names_.contains(name)) return name;
  }
}

const std::string& OnnxWriter::AddInitializer(const std::string& name, const Tensor& tensor) {
  initializers_.emplace_back(name, tensor);
  return initializers_.back().first;
}

void OnnxWriter::AddTensor(const std::string& name, const Tensor& tensor, bool compact) {
  if (!compact || tensor.num_elements() < kMinCompactElements || !IsUniform(tensor)) {
    AddInitializer(name, tensor);
    return;
  }
  AddNode("ConstantOfShape", {Ints(tensor.shape())}, {name});
  onnx::AttributeProto* value = nodes_.back().add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  Tensor element(TensorType{tensor.dtype(), {1}});
  std::memcpy(element.data(), tensor.data(), DTypeSize(tensor.dtype()));
  FillTensor("", element, value->mutable_t());
}

std::string OnnxWriter::Ints(const std::vector<int64_t>& values) {
  std::string& name = ints_[values];
  if (name.empty()) name = AddInitializer(UniqueName(absl::StrCat("ints_", ints_.size() - 1)), Tensor::Int64s(values));
  return name;
}

std::string OnnxWriter::Number(DType dtype, double value) {
  const Tensor tensor = Tensor::Scalar(dtype, value);
  const std::string bytes(static_cast<const char*>(tensor.data()), DTypeSize(dtype));
  std::string& name = numbers_[{dtype, bytes}];
  if (name.empty()) name = AddInitializer(UniqueName(absl::StrCat("number_", numbers_.size() - 1)), tensor);
  return name;
}

OnnxAttrs AttrsOf(const ExportedNode& node) {
  OnnxAttrs attrs;
  for (const auto& [name, attr] : node.node.attrs) {
    const std::string written = name == "kernel"   ? "kernel_shape"
                                : name == "groups" ? "group"
                                : name == "block"  ? "blocksize"
                                                   : name;
    if (const auto* integer = std::get_if<int64_t>(&attr)) attrs.emplace_back(written, *integer);
    if (const auto* real = std::get_if<double>(&attr)) attrs.emplace_back(written, *real);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) attrs.emplace_back(written, *list);
  }
  return attrs;
}

std::string Step(OnnxWriter& writer, const ExportedNode& node, absl::string_view op_type,
                 absl::Span<const std::string> inputs, const OnnxAttrs& attrs) {
  const std::string result = writer.Temporary(node);
  writer.AddNode(op_type, inputs, {result}, attrs);
  return result;
}

std::string CastTo(OnnxWriter& writer, const ExportedNode& node, const std::string& x, DType to) {
  return Step(writer, node, "Cast", {x}, {{"to", DTypeToOnnx(to)}});
}

}  // namespace rewright
