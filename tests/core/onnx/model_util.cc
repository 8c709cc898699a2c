#include "tests/core/onnx/model_util.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "core/onnx/proto.h"

namespace rewright {
namespace {

void SetAttr(onnx::AttributeProto* proto, const std::string& name, const TestAttr& attr) {
  proto->set_name(name);
  if (const auto* integer = std::get_if<int64_t>(&attr)) {
    proto->set_type(onnx::AttributeProto::INT);
    proto->set_i(*integer);
  } else if (const auto* real = std::get_if<double>(&attr)) {
    proto->set_type(onnx::AttributeProto::FLOAT);
    proto->set_f(static_cast<float>(*real));
  } else if (const auto* text = std::get_if<std::string>(&attr)) {
    proto->set_type(onnx::AttributeProto::STRING);
    proto->set_s(*text);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&attr)) {
    proto->set_type(onnx::AttributeProto::INTS);
    for (int64_t item : *integers) proto->add_ints(item);
  } else if (const auto* reals = std::get_if<std::vector<double>>(&attr)) {
    proto->set_type(onnx::AttributeProto::FLOATS);
    for (double item : *reals) proto->add_floats(static_cast<float>(item));
  } else {
    proto->set_type(onnx::AttributeProto::TENSOR);
    FillTensor("", std::get<Tensor>(attr), proto->mutable_t());
  }
}

}  // namespace

Tensor Iota(const Shape& shape) {
  Tensor tensor(TensorType{DType::kFloat32, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, static_cast<double>(i));
  return tensor;
}

TestModel::TestModel(int64_t opset) {
  proto_.set_ir_version(8);
  proto_.mutable_graph()->set_name("test");
  onnx::OperatorSetIdProto* import = proto_.add_opset_import();
  import->set_domain("");
  import->set_version(opset);
}

TestModel& TestModel::Input(const std::string& name, const Shape& shape, DType dtype) {
  onnx::ValueInfoProto* info = proto_.mutable_graph()->add_input();
  info->set_name(name);
  onnx::TypeProto::Tensor* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(DTypeToOnnx(dtype));
  tensor->mutable_shape();
  for (int64_t size : shape) {
    onnx::TensorShapeProto::Dimension* dim = tensor->mutable_shape()->add_dim();
    if (size >= 0) dim->set_dim_value(size);
  }
  return *this;
}

TestModel& TestModel::SymbolicInput(const std::string& name, const std::vector<std::string>& dims) {
  Input(name, Shape(dims.size(), 1));
  auto* shape =
      proto_.mutable_graph()->mutable_input()->rbegin()->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (size_t i = 0; i < dims.size(); ++i) shape->mutable_dim(static_cast<int>(i))->set_dim_param(dims[i]);
  return *this;
}

TestModel& TestModel::Initializer(const std::string& name, const Tensor& tensor) {
  FillTensor(name, tensor, proto_.mutable_graph()->add_initializer());
  return *this;
}

TestModel& TestModel::Node(const std::string& op_type, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const TestAttrs& attrs) {
  onnx::NodeProto* node = proto_.mutable_graph()->add_node();
  node->set_op_type(op_type);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  for (const auto& [name, attr] : attrs) SetAttr(node->add_attribute(), name, attr);
  return *this;
}

TestModel& TestModel::Output(const std::string& name) {
  proto_.mutable_graph()->add_output()->set_name(name);
  return *this;
}

absl::StatusOr<ImportedModel> TestModel::Import(const ImportOptions& options) const {
  return ImportOnnxBytes(Bytes(), "test.onnx", "", options);
}

std::string TestModel::Error(const ImportOptions& options) const {
  return std::string(Import(options).status().message());
}

std::vector<Tensor> OutputsOf(const Graph& graph, const std::map<std::string, Tensor>& inputs) {
  const absl::flat_hash_map<std::string, Tensor> by_name(inputs.begin(), inputs.end());
  auto outputs = InterpretGraph(graph, by_name);
  EXPECT_TRUE(outputs.ok()) << outputs.status().ToString();
  return outputs.ok() ? *outputs : std::vector<Tensor>(graph.outputs().size());
}

std::string Printed(const TestModel& model) {
  auto imported = model.Import();
  if (!imported.ok()) return std::string(imported.status().message());
  std::string text = "\n";
  std::istringstream lines(PrintGraph(imported->graph));
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string PrintedNode(int64_t opset, const char* op_type, const TestAttrs& attrs) {
  return Printed(TestModel(opset).Input("x", {3}).Node(op_type, {"x"}, {"y"}, attrs).Output("y"));
}

}  // namespace rewright
