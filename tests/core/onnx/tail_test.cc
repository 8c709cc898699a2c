// Tests files whose last part cannot be read: the graph ends before it, and it is written back behind the graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/text.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ImportOptions kTail = {.keep_source = true, .keep_unknown = true, .keep_tail = true};

std::vector<std::string> NamesOfOutputs(const Graph& graph) {
  std::vector<std::string> names;
  for (const Output& output : graph.outputs()) names.push_back(output.name);
  return names;
}

std::vector<std::string> Operators(const onnx::ModelProto& model) {
  std::vector<std::string> operators;
  for (const onnx::NodeProto& node : model.graph().node()) operators.push_back(node.op_type());
  return operators;
}

onnx::ModelProto Written(const ImportedModel& model) {
  onnx::ModelProto written;
  const auto bytes = ExportOnnxBytes(model.graph, model.metadata, {.source = model.source, .tail = true});
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(bytes.ok() && written.ParseFromString(*bytes));
  return written;
}

void DeclareOutput(TestModel& model, const std::string& name) {
  model.Output(name);
  auto* type = model.proto().mutable_graph()->mutable_output()->rbegin()->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::INT64);
  type->mutable_shape()->add_dim()->set_dim_value(2);
  type->mutable_shape()->add_dim()->set_dim_param("found");
}

// relu(x) w, where it is not zero, and its negative.
TestModel Found() {
  TestModel model;
  model.Input("x", {3, 4}).Initializer("w", Iota({4})).Initializer("axis", Tensor::Int64s({0}));
  model.Node("Relu", {"x"}, {"a"}).Node("Mul", {"a", "w"}, {"b"}).Node("NonZero", {"b"}, {"places"});
  model.Node("Gather", {"places", "axis"}, {"rows"}).Node("Neg", {"b"}, {"z"});
  DeclareOutput(model, "rows");
  model.Output("z");
  return model;
}

TEST(Tail, TheGraphEndsBeforeIt) {
  EXPECT_THAT(Found().Error(), HasSubstr("NonZero"));
  EXPECT_THAT(Found().Error({.keep_unknown = true}), HasSubstr("NonZero"));
  const auto model = Found().Import(kTail);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(NamesOfOutputs(model->graph), ElementsAre("z", "b"));
  ASSERT_EQ(model->tail.size(), 2U);
  EXPECT_EQ(model->tail[0].node, "node giving \"places\" (NonZero)");
  EXPECT_THAT(model->tail[0].why, HasSubstr("the operator is not known"));
}

TEST(Tail, IsWrittenBehindTheGraph) {
  const auto model = Found().Import(kTail);
  ASSERT_TRUE(model.ok()) << model.status();
  const onnx::ModelProto written = Written(*model);
  EXPECT_THAT(Operators(written), ElementsAre("Relu", "Mul", "Neg", "NonZero", "Gather"));
  ASSERT_EQ(written.graph().output_size(), 2);
  EXPECT_EQ(written.graph().output(0).name(), "rows");
  EXPECT_EQ(written.graph().output(0).type().tensor_type().shape().dim(1).dim_param(), "found");
  EXPECT_EQ(written.graph().output(1).name(), "z");
  std::vector<std::string> weights;
  for (const onnx::TensorProto& tensor : written.graph().initializer()) weights.push_back(tensor.name());
  EXPECT_THAT(weights, ::testing::UnorderedElementsAre("w", "axis"));
  const auto again = ImportOnnxBytes(written.SerializeAsString(), "written", "", kTail);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->graph.CanonicalHash(), model->graph.CanonicalHash());
  EXPECT_EQ(again->tail.size(), 2U);
}

// A selection by data, whose branches read values around them.
TEST(Tail, GraphsOfItsNodesReadFromOutside) {
  TestModel model;
  model.Input("x", {2}).Input("c", {}, DType::kBool).Initializer("w", Iota({2}));
  model.Node("Relu", {"x"}, {"a"}).Node("Exp", {"x"}, {"e"}).Node("If", {"c"}, {"y"}).Output("y");
  for (const std::string branch : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* attribute = model.proto().mutable_graph()->mutable_node(2)->add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    onnx::NodeProto* node = attribute->mutable_g()->add_node();
    node->set_op_type("Add");
    node->add_input(branch == "then_branch" ? "a" : "e");
    node->add_input("w");
    node->add_output("y");
    attribute->mutable_g()->set_name(branch);
    attribute->mutable_g()->add_output()->set_name("y");
  }
  const auto imported = model.Import(kTail);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(NamesOfOutputs(imported->graph), ElementsAre("a", "e"));
  const onnx::ModelProto written = Written(*imported);
  EXPECT_THAT(Operators(written), ElementsAre("Relu", "Exp", "If"));
  EXPECT_EQ(written.graph().output_size(), 1);
  ASSERT_EQ(written.graph().initializer_size(), 1);
  EXPECT_EQ(written.graph().initializer(0).name(), "w");
}

// Inputs and weights of unsupported types belong to the tail.
TEST(Tail, HasWhatOnlyItKnows) {
  TestModel model = Found();
  model.Input("words", {2});
  model.proto().mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::STRING);
  model.Node("Identity", {"words"}, {"same"}).Output("same");
  const auto imported = model.Import(kTail);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(NamesOfOutputs(imported->graph), ElementsAre("z", "b"));
  const onnx::ModelProto written = Written(*imported);
  ASSERT_EQ(written.graph().input_size(), 2);
  EXPECT_EQ(written.graph().input(1).type().tensor_type().elem_type(), onnx::TensorProto::STRING);
  EXPECT_EQ(written.graph().output_size(), 3);
}

TEST(Tail, WithNothingBeforeItLeavesNoOutput) {
  TestModel model;
  model.Input("x", {3, 4}).Node("NonZero", {"x"}, {"y"});
  DeclareOutput(model, "y");
  const auto imported = model.Import(kTail);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_TRUE(imported->graph.outputs().empty());
  EXPECT_EQ(imported->tail.size(), 1u);
  EXPECT_EQ(Written(*imported).graph().node_size(), 1);
}

}  // namespace
}  // namespace rewright
