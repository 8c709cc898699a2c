#include "core/onnx/writer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace rewright {

std::string OnnxWriter::UniqueName(const std::string& wanted) {
  if (!wanted.empty() && Reserve(wanted)) return wanted;
  for (int i = 1;; ++i) {
    std::string name = absl::StrCat(wanted.empty() ? "value" : wanted, "_", i);
    if (Reserve(name)) return name;
  }
}

onnx::NodeProto* OnnxWriter::AddNode(const std::string& op_type, const std::vector<std::string>& inputs,
                                     const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = nodes_.emplace_back();
  node.set_op_type(op_type);
  node.set_name(NumberedNodeName(op_type));
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  return &node;
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

void OnnxWriter::SetInt(onnx::NodeProto* node, const std::string& name, int64_t value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void OnnxWriter::SetFloat(onnx::NodeProto* node, const std::string& name, double value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(static_cast<float>(value));
}

void OnnxWriter::SetString(onnx::NodeProto* node, const std::string& name, const std::string& value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

void OnnxWriter::SetInts(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}

const std::string& OnnxWriter::AddInitializer(const std::string& name, const Tensor& tensor) {
  initializers_.emplace_back(name, tensor);
  return initializers_.back().first;
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

}  // namespace rewright
