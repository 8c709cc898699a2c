// Tests the errors of operators of the domain com.microsoft. microsoft_operators.py compares their values with
// onnxruntime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

TestModel Node(const std::string& op, const std::vector<std::string>& inputs, const TestAttrs& attrs = {}) {
  TestModel model;
  model.Input("x", {1, 2, 4, 4})
      .Input("q", {1, 2, 4, 4}, DType::kUInt8)
      .Initializer("w", Iota({2, 2, 1, 1}))
      .Initializer("s", Tensor::Scalar(DType::kFloat32, 0.5))
      .Initializer("many", Iota({2}))
      .Initializer("z", Tensor::Scalar(DType::kUInt8, 3))
      .Node(op, inputs, {"y"}, attrs)
      .Output("y");
  model.proto().mutable_graph()->mutable_node(0)->set_domain("com.microsoft");
  return model;
}

TEST(MicrosoftTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(Node("QLinearAdd", {"q", "s", "z", "", "s", "z", "s", "z"}).Error(),
              HasSubstr("com.microsoft.QLinearAdd): input 3 is missing"));
  EXPECT_THAT(Node("QLinearMul", {"q", "", "z", "q", "s", "z", "s", "z"}).Error(), HasSubstr("input 1 is missing"));
  EXPECT_THAT(Node("QLinearConcat", {"s", "z", "q"}, {{"axis", int64_t{1}}}).Error(), HasSubstr("input 3 is missing"));
  EXPECT_THAT(Node("EmbedLayerNormalization", {"q"}).Error(), HasSubstr("input 2 is missing"));
}

TEST(MicrosoftTest, UsesThatAreNotReadAreNamed) {
  const std::vector<std::string> pooled = {"q", "s", "z", "s", "z"};
  EXPECT_THAT(Node("QLinearGlobalAveragePool", pooled, {{"channels_last", int64_t{1}}}).Error(),
              HasSubstr("com.microsoft.QLinearGlobalAveragePool: channels_last = 1"));
  EXPECT_THAT(Node("QLinearSigmoid", {"q", "many", "z", "s", "z"}).Error(),
              HasSubstr("a scale or zero point f32[2]; a number is"));
  EXPECT_THAT(Node("QLinearSigmoid", {"x", "s", "z", "s", "z"}).Error(), HasSubstr("quantized elements of type f32"));
  EXPECT_THAT(Node("FusedConv", {"x", "w"}, {{"activation", std::string("Erf")}}).Error(),
              HasSubstr("activation Erf of 0 parameters"));
}

// The zero point may be omitted, and the result has the operand's type.
TEST(MicrosoftTest, ZeroPointsMayBeLeftAway) {
  const auto model = Node("QLinearSigmoid", {"q", "s", "", "s"}).Import();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.type(model->graph.outputs()[0].value), (TensorType{DType::kUInt8, {1, 2, 4, 4}}));
}

}  // namespace
}  // namespace rewright
