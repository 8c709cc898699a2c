// Tests that calls of functions of a model file become the nodes of their bodies.
#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

onnx::FunctionProto& AddFunction(TestModel& model, const std::string& name, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs, int64_t opset = 17) {
  onnx::FunctionProto& function = *model.proto().add_functions();
  function.set_domain("own");
  function.set_name(name);
  for (const std::string& input : inputs) function.add_input(input);
  for (const std::string& output : outputs) function.add_output(output);
  for (const auto& [domain, version] : std::vector<std::pair<std::string, int64_t>>{{"", opset}, {"own", 1}}) {
    onnx::OperatorSetIdProto* import = function.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  return function;
}

onnx::NodeProto& AddTo(onnx::FunctionProto& function, const std::string& op_type,
                       const std::vector<std::string>& inputs, const std::string& output,
                       const std::string& domain = "") {
  onnx::NodeProto& node = *function.add_node();
  node.set_op_type(op_type);
  node.set_domain(domain);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

// Calls own.NAME, whose domain the model imports.
void Call(TestModel& model, const std::string& name, const std::vector<std::string>& inputs,
          const std::vector<std::string>& outputs) {
  model.Node(name, inputs, outputs);
  model.proto().mutable_graph()->mutable_node()->rbegin()->set_domain("own");
  if (model.proto().opset_import_size() > 1) return;
  onnx::OperatorSetIdProto* import = model.proto().add_opset_import();
  import->set_domain("own");
  import->set_version(1);
}

// leaky(x) = LeakyRelu(x; alpha = the attribute slope, else 0.5) + x; its inner tensor has a name of the graph's.
void AddLeaky(TestModel& model) {
  onnx::FunctionProto& function = AddFunction(model, "Leaky", {"x"}, {"r"});
  onnx::AttributeProto* slope = AddTo(function, "LeakyRelu", {"x"}, "y").add_attribute();
  slope->set_name("alpha");
  slope->set_type(onnx::AttributeProto::FLOAT);
  slope->set_ref_attr_name("slope");
  AddTo(function, "Add", {"y", "x"}, "r");
  onnx::AttributeProto otherwise;
  otherwise.set_name("slope");
  otherwise.set_type(onnx::AttributeProto::FLOAT);
  otherwise.set_f(0.5f);
  constexpr int kDefaults = 11;  // a field that the messages here do not have
  function.GetReflection()->MutableUnknownFields(&function)->AddLengthDelimited(kDefaults,
                                                                                otherwise.SerializeAsString());
}

TEST(InlineFunctions, BodiesWithTheAttributesOfTheCall) {
  TestModel model;
  model.Input("a", {2});
  AddLeaky(model);
  Call(model, "Leaky", {"a"}, {"b"});
  Call(model, "Leaky", {"b"}, {"y"});
  onnx::AttributeProto* slope = model.proto().mutable_graph()->mutable_node(1)->add_attribute();
  slope->set_name("slope");
  slope->set_type(onnx::AttributeProto::FLOAT);
  slope->set_f(2);
  model.Output("y");
  const auto imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Tensor x = Tensor::FromVector(DType::kFloat32, {2}, std::vector<float>{3, -4});
  const Tensor y = OutputsOf(imported->graph, {{"a", x}}).at(0);
  EXPECT_EQ(y.At(0), 12);
  EXPECT_EQ(y.At(1), -18);  // -4 - 2 = -6, -6 - 12
}

TEST(InlineFunctions, BodiesThatCallFunctionsInTheGraphsOfTheirNodes) {
  TestModel model;
  model.Input("a", {2});
  AddLeaky(model);
  // outer(c, x) = if c then leaky(x) else x; the second output is the input.
  onnx::FunctionProto& outer = AddFunction(model, "Outer", {"x"}, {"z", "x"});
  onnx::AttributeProto* truth = AddTo(outer, "Constant", {}, "c").add_attribute();
  truth->set_name("value");
  truth->set_type(onnx::AttributeProto::TENSOR);
  Tensor yes(TensorType{DType::kBool, {}});
  yes.SetInt(0, 1);
  FillTensor("", yes, truth->mutable_t());
  onnx::NodeProto& choice = AddTo(outer, "If", {"c"}, "z");
  for (const std::string branch : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* attribute = choice.add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    onnx::NodeProto* node = attribute->mutable_g()->add_node();
    node->set_op_type(branch == "then_branch" ? "Leaky" : "Identity");
    node->set_domain(branch == "then_branch" ? "own" : "");
    node->add_input("x");
    node->add_output("y");
    attribute->mutable_g()->set_name(branch);
    attribute->mutable_g()->add_output()->set_name("y");
  }
  Call(model, "Outer", {"a"}, {"y", "same"});
  model.Output("y").Output("same");
  const auto imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Tensor x = Tensor::FromVector(DType::kFloat32, {2}, std::vector<float>{3, -4});
  const std::vector<Tensor> outputs = OutputsOf(imported->graph, {{"a", x}});
  EXPECT_EQ(outputs.at(0).At(0), 6);
  EXPECT_EQ(outputs.at(0).At(1), -6);
  EXPECT_TRUE(outputs.at(1).BitEqual(x));
}

// An optional input that the call leaves out is left out in the body.
TEST(InlineFunctions, OptionalInputs) {
  TestModel model;
  model.Input("a", {2});
  onnx::FunctionProto& function = AddFunction(model, "Bounded", {"x", "low", "high"}, {"y"});
  AddTo(function, "Clip", {"x", "low", "high"}, "y");
  model.Initializer("top", Tensor::Scalar(DType::kFloat32, 2));
  Call(model, "Bounded", {"a", "", "top"}, {"b"});
  Call(model, "Bounded", {"b"}, {"y"});
  model.Output("y");
  const auto imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Tensor x = Tensor::FromVector(DType::kFloat32, {2}, std::vector<float>{3, -4});
  const Tensor y = OutputsOf(imported->graph, {{"a", x}}).at(0);
  EXPECT_EQ(y.At(0), 2);
  EXPECT_EQ(y.At(1), -4);
}

TEST(InlineFunctions, CallsWithoutEndAreErrors) {
  TestModel model;
  model.Input("a", {2});
  AddTo(AddFunction(model, "Again", {"x"}, {"y"}), "Again", {"x"}, "y", "own");
  Call(model, "Again", {"a"}, {"y"});
  model.Output("y");
  EXPECT_THAT(model.Error(), HasSubstr("functions that call functions, more than 32 deep"));

  TestModel many;  // two calls a function, 25 deep
  many.Input("a", {2});
  for (int i = 0; i < 25; ++i) {
    onnx::FunctionProto& function = AddFunction(many, absl::StrCat("F", i), {"x"}, {"y"});
    const std::string next = i < 24 ? absl::StrCat("F", i + 1) : "Relu";
    AddTo(function, next, {"x"}, "m", i < 24 ? "own" : "");
    AddTo(function, next, {"m"}, "y", i < 24 ? "own" : "");
  }
  Call(many, "F0", {"a"}, {"y"});
  many.Output("y");
  EXPECT_THAT(many.Error(), HasSubstr("the functions of the file come to more than 1000000 nodes"));
}

// A call stays if the nodes of its body mean something else in the model's opset.
TEST(InlineFunctions, BodiesThatMeanSomethingElseStayCalls) {
  TestModel model;
  model.Input("a", {2, 3, 4});
  AddTo(AddFunction(model, "Old", {"x"}, {"y"}, 11), "Softmax", {"x"}, "y");
  Call(model, "Old", {"a"}, {"y"});
  model.Output("y");
  EXPECT_THAT(model.Error(), HasSubstr("operators are not supported: own.Old"));
}

}  // namespace
}  // namespace rewright
