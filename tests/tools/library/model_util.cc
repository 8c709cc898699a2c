#include "tests/tools/library/model_util.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "bench/zoo/zoo.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

void SetInts(onnx::TensorProto* tensor, const std::string& name, const std::vector<int64_t>& values, bool scalar) {
  tensor->Clear();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  if (!scalar) tensor->add_dims(static_cast<int64_t>(values.size()));
  for (int64_t value : values) tensor->add_int64_data(value);
}

void AddFloatInput(onnx::ValueInfoProto* info, const std::string& name, const std::string& batch, int64_t size) {
  info->set_name(name);
  info->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  onnx::TensorShapeProto* shape = info->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param(batch);
  shape->add_dim()->set_dim_value(size);
}

onnx::NodeProto* AddNode(onnx::GraphProto* graph, const std::string& op, const std::vector<std::string>& inputs,
                         const std::string& output) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

std::vector<int64_t> IntsOf(const onnx::TensorProto& tensor) {
  std::vector<int64_t> values(tensor.int64_data().begin(), tensor.int64_data().end());
  if (!values.empty() || tensor.raw_data().empty()) return values;
  values.resize(tensor.raw_data().size() / sizeof(int64_t));
  std::copy_n(tensor.raw_data().data(), tensor.raw_data().size(), reinterpret_cast<char*>(values.data()));
  return values;
}

// Sizes that the batch and the sequence are written with, like no others of the model.
constexpr int64_t kBatch = 7, kSequence = 13;

// Writes numbers that are sizes as exporters do: the sizes of a reshape are copied from its operand, a slice ends
// beyond any axis, positions are a Range over the sequence.
void MakeSymbolic(onnx::GraphProto* graph) {
  for (onnx::ValueInfoProto& input : *graph->mutable_input()) {
    onnx::TensorShapeProto* shape = input.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(0)->set_dim_param("batch");
    shape->mutable_dim(1)->set_dim_param("sequence");
  }
  std::string positions;
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (onnx::TensorProto& tensor : *graph->mutable_initializer()) {
    std::vector<int64_t> values;
    if (tensor.data_type() == onnx::TensorProto::INT64) values = IntsOf(tensor);
    if (values.size() == kSequence) {
      positions = tensor.name();
      continue;
    }
    bool sized = false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != kBatch && values[i] != kSequence) continue;
      // The target of a reshape has both sizes, or the batch alone before the hidden size; the end of a slice has a 1.
      const bool slice = values.size() == 3 && values[1] == 1;
      values[i] = slice ? std::numeric_limits<int64_t>::max() : 0;
      sized = true;
    }
    if (sized) SetInts(&tensor, std::string(tensor.name()), values, /*scalar=*/false);
    *kept.Add() = tensor;
  }
  ASSERT_FALSE(positions.empty());
  *graph->mutable_initializer() = kept;
  SetInts(graph->add_initializer(), "zero", {0}, true);
  SetInts(graph->add_initializer(), "one", {1}, true);
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  nodes.Swap(graph->mutable_node());
  AddNode(graph, "Shape", {"input_ids"}, "shape_of_ids");
  onnx::AttributeProto* axis = AddNode(graph, "Gather", {"shape_of_ids", "one"}, "length")->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  AddNode(graph, "Range", {"zero", "length", "one"}, positions);
  graph->mutable_node()->MergeFrom(nodes);
  graph->clear_value_info();
  for (onnx::ValueInfoProto& output : *graph->mutable_output()) {
    output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
}

}  // namespace

std::string SmallModel() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name("small");
  AddFloatInput(graph->add_input(), "x", "n", 4);
  onnx::TensorProto* one = graph->add_initializer();
  one->set_name("one");
  one->set_data_type(onnx::TensorProto::FLOAT);
  one->add_float_data(1);
  AddNode(graph, "Mul", {"x", "one"}, "scaled");
  AddNode(graph, "Relu", {"scaled"}, "y");
  onnx::ValueInfoProto* output = graph->add_output();
  output->set_name("y");
  output->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  return model.SerializeAsString();
}

std::string InvertingModel() {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(SmallModel()));
  onnx::OperatorSetIdProto* microsoft = model.add_opset_import();
  microsoft->set_domain("com.microsoft");
  microsoft->set_version(1);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_param("n");
  *graph->mutable_node(1)->mutable_output(0) = "positive";
  onnx::NodeProto* inverse = AddNode(graph, "Inverse", {"positive"}, "y");
  inverse->set_name("inv");
  inverse->set_domain("com.microsoft");
  *graph->mutable_output(0) = graph->input(0);
  graph->mutable_output(0)->set_name("y");
  return model.SerializeAsString();
}

std::string SymbolicBert(int64_t layers) {
  ZooOptions options;
  options.batch = kBatch;
  options.sequence_length = kSequence;
  options.layers = layers;
  const absl::StatusOr<Graph> graph = BuildZooModel("bert_base", options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  ExportOptions as_it_is;
  as_it_is.fold_weights = false;
  const absl::StatusOr<std::string> bytes = ExportOnnxBytes(*graph, {}, as_it_is);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(*bytes));
  MakeSymbolic(model.mutable_graph());
  return model.SerializeAsString();
}

BertInputs::BertInputs(int64_t batch, int64_t sequence) : shape{batch, sequence} {
  for (int64_t i = 0; i < batch * sequence; ++i) {
    ids.push_back((i * 7919 + 13) % 30522);
    types.push_back(i % sequence < sequence / 2 ? 0 : 1);
  }
}

std::vector<InputView> BertInputs::views() const {
  return {InputView::Of("input_ids", shape, ids.data()), InputView::Of("token_type_ids", shape, types.data())};
}

double Difference(const std::vector<OutputArray>& a, const std::vector<OutputArray>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, largest = 0;
  for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    EXPECT_EQ(a[k].name, b[k].name);
    EXPECT_EQ(a[k].shape, b[k].shape);
    if (a[k].shape != b[k].shape) continue;
    const float *x = a[k].data<float>(), *y = b[k].data<float>();
    for (size_t i = 0; i < a[k].size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(x[i]) - y[i]));
      largest = std::max(largest, std::abs(static_cast<double>(y[i])));
    }
  }
  EXPECT_GT(largest, 0);
  return difference / largest;
}

}  // namespace rewright
