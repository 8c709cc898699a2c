// Tests the imports of ONNX's operators, in printed form; the conformance tests check their values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using List = std::vector<int64_t>;

TEST(ImportOpsTest, ActivationsAreOperators) {
  const auto expected = [](const std::string& op) { return "\ninput x: f32[3]\n%0 = " + op + "(x)\noutput y = %0\n"; };
  EXPECT_EQ(PrintedNode(20, "Gelu"), expected("gelu"));
  EXPECT_EQ(PrintedNode(20, "Gelu", {{"approximate", "tanh"}}), expected("gelu_tanh"));
  EXPECT_EQ(PrintedNode(14, "HardSwish"), expected("hard_swish"));
  EXPECT_EQ(PrintedNode(18, "Mish"), expected("mish"));
  EXPECT_EQ(PrintedNode(24, "Swish"), expected("swish"));
  EXPECT_EQ(PrintedNode(22, "Softplus"), expected("softplus"));
  EXPECT_EQ(PrintedNode(24, "Swish", {{"alpha", 0.5}}), R"(
input x: f32[3]
const %0: f32[] = [0.5]
%1 = mul(x, %0)
%2 = sigmoid(%1)
%3 = mul(x, %2)
output y = %3
)");
}

// Omitted attributes have ONNX's defaults.
TEST(ImportOpsTest, FunctionsWithAttributes) {
  const auto expected = [](const std::string& call) { return "\ninput x: f32[3]\n%0 = " + call + "\noutput y = %0\n"; };
  EXPECT_EQ(PrintedNode(22, "Elu"), expected("elu(x)"));
  EXPECT_EQ(PrintedNode(22, "Elu", {{"alpha", 0.5}}), expected("elu(x, alpha=0.5)"));
  EXPECT_EQ(PrintedNode(16, "LeakyRelu", {{"alpha", 0.5}}), expected("leaky_relu(x, alpha=0.5)"));
  EXPECT_EQ(PrintedNode(12, "Celu"), expected("elu(x)"));
  EXPECT_EQ(PrintedNode(12, "Celu", {{"alpha", 0.5}}), R"(
input x: f32[3]
const %0: f32[] = [0]
%1 = less(%0, x)
const %2: f32[] = [0.5]
%3 = div(x, %2)
%4 = elu(%3, alpha=0.5)
%5 = where(%1, x, %4)
output y = %5
)");
}

// The nearest number to 1/6 is read as 1/6, and gives hard_swish.
TEST(ImportOpsTest, HardSigmoidOfASixthDivides) {
  EXPECT_EQ(PrintedNode(14, "HardSigmoid", {{"alpha", 1.0 / 6}, {"beta", 0.5}}), R"(
input x: f32[3]
const %0: f32[] = [6]
%1 = div(x, %0)
const %2: f32[] = [0.5]
%3 = add(%1, %2)
%4 = clip(%3, max=1.0, min=0.0)
output y = %4
)");
  EXPECT_THAT(PrintedNode(14, "HardSigmoid"), ::testing::HasSubstr("%1 = mul(x, %0)"));
}

TEST(ImportOpsTest, GemmIsTransposeMatmulMulAdd) {
  const TestModel model =
      TestModel(13)
          .Input("x", {2, 3})
          .Initializer("w", Iota({4, 3}))
          .Initializer("b", Iota({4}))
          .Node("Gemm", {"x", "w", "b"}, {"y"}, {{"transB", int64_t{1}}, {"alpha", 0.5}, {"beta", 2.0}})
          .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3]
state w: f32[4,3]
%0 = transpose(w, perm=[1,0])
%1 = matmul(x, %0)
const %2: f32[] = [0.5]
%3 = mul(%1, %2)
state b: f32[4]
const %4: f32[] = [2]
%5 = mul(b, %4)
%6 = add(%3, %5)
output y = %6
)");
}

TEST(ImportOpsTest, GemmWithoutScalesIsMatmulAdd) {
  const TestModel model = TestModel(13)
                              .Input("x", {2, 3})
                              .Initializer("w", Iota({3, 4}))
                              .Initializer("b", Iota({4}))
                              .Node("Gemm", {"x", "w", "b"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3]
state w: f32[3,4]
%0 = matmul(x, w)
state b: f32[4]
%1 = add(%0, b)
output y = %1
)");
}

TEST(ImportOpsTest, MatMulOfVectorsReshapes) {
  const TestModel model =
      TestModel(13).Input("a", {3}).Input("b", {2, 3, 4}).Node("MatMul", {"a", "b"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input a: f32[3]
input b: f32[2,3,4]
%0 = reshape(a, shape=[1,3])
%1 = matmul(%0, b)
%2 = reshape(%1, shape=[2,4])
output y = %2
)");
}

TEST(ImportOpsTest, ConvWithBiasIsConvAndAdd) {
  const TestModel model = TestModel(13)
                              .Input("x", {1, 4, 8, 8})
                              .Initializer("w", Iota({6, 2, 3, 3}))
                              .Initializer("b", Iota({6}))
                              .Node("Conv", {"x", "w", "b"}, {"y"},
                                    {{"group", int64_t{2}},
                                     {"pads", List{1, 0, 2, 1}},
                                     {"strides", List{2, 1}},
                                     {"kernel_shape", List{3, 3}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[1,4,8,8]
state w: f32[6,2,3,3]
%0 = conv2d(x, w, groups=2, pads=[1,0,2,1], strides=[2,1])
state b: f32[6]
%1 = reshape(b, shape=[1,6,1,1])
%2 = add(%0, %1)
output y = %2
)");
}

TEST(ImportOpsTest, ConvOfOneDimensionIsConvOfTwo) {
  const TestModel model = TestModel(13)
                              .Input("x", {1, 4, 8})
                              .Initializer("w", Iota({6, 4, 3}))
                              .Node("Conv", {"x", "w"}, {"y"}, {{"pads", List{1, 2}}, {"dilations", List{2}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[1,4,8]
%0 = reshape(x, shape=[1,4,1,8])
state w: f32[6,4,3]
%1 = reshape(w, shape=[6,4,1,3])
%2 = conv2d(%0, %1, dilations=[1,2], pads=[0,1,0,2])
%3 = reshape(%2, shape=[1,6,7])
output y = %3
)");
}

TEST(ImportOpsTest, AutoPadUpperPadsAtTheEnd) {
  const TestModel model =
      TestModel(13)
          .Input("x", {1, 1, 5, 6})
          .Initializer("w", Iota({1, 1, 2, 3}))
          .Node("Conv", {"x", "w"}, {"y"}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", List{2, 2}}})
          .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[1,1,5,6]
state w: f32[1,1,2,3]
%0 = conv2d(x, w, pads=[0,0,1,1], strides=[2,2])
output y = %0
)");
}

TEST(ImportOpsTest, AutoPadLowerPadsAtTheBeginning) {
  const TestModel model =
      TestModel(13)
          .Input("x", {1, 1, 5, 6})
          .Node("MaxPool", {"x"}, {"y"},
                {{"auto_pad", std::string("SAME_LOWER")}, {"kernel_shape", List{2, 3}}, {"strides", List{2, 2}}})
          .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[1,1,5,6]
%0 = max_pool2d(x, kernel=[2,3], pads=[1,1,0,0], strides=[2,2])
output y = %0
)");
}

// Positions are of the first of equal elements, in the whole operand; padding is never the maximum.
TEST(ImportOpsTest, MaxPoolSaysWhereItsMaximaStand) {
  const TestModel model = TestModel(13)
                              .Input("x", {1, 2, 3, 3})
                              .Node("MaxPool", {"x"}, {"y", "i"},
                                    {{"kernel_shape", List{2, 2}}, {"strides", List{2, 1}}, {"pads", List{1, 1, 0, 0}}})
                              .Output("y")
                              .Output("i");
  const auto imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Tensor x = Tensor::FromVector<double>(DType::kFloat32, {1, 2, 3, 3},
                                              {1, 5, 5, -2, -1, -3, 4, 4, 9, -7, -7, -8, -1, -2, -3, -4, -5, -6});
  const std::vector<Tensor> outputs = OutputsOf(imported->graph, {{"x", x}});
  const std::vector<int64_t> expected = {0, 1, 1, 6, 6, 8, 9, 9, 10, 12, 12, 13};
  ASSERT_EQ(outputs[1].shape(), (Shape{1, 2, 2, 3}));
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(outputs[1].AtInt(i), expected[static_cast<size_t>(i)]) << i;
}

TEST(ImportOpsTest, Pools) {
  const TestModel model =
      TestModel(13)
          .Input("x", {1, 2, 7, 7})
          .Node("MaxPool", {"x"}, {"a"},
                {{"kernel_shape", List{3, 3}}, {"strides", List{2, 2}}, {"ceil_mode", int64_t{1}}})
          .Node("AveragePool", {"a"}, {"b"},
                {{"kernel_shape", List{3, 3}}, {"pads", List{1, 1, 1, 1}}, {"count_include_pad", int64_t{1}}})
          .Node("GlobalAveragePool", {"b"}, {"y"})
          .Node("GlobalMaxPool", {"b"}, {"z"})
          .Output("y")
          .Output("z");
  EXPECT_EQ(Printed(model), R"(
input x: f32[1,2,7,7]
%0 = max_pool2d(x, ceil_mode=1, kernel=[3,3], strides=[2,2])
%1 = avg_pool2d(%0, count_include_pad=1, kernel=[3,3], pads=[1,1,1,1])
%2 = reduce_mean(%1, axes=[2,3])
%3 = reduce_max(%1, axes=[2,3])
output y = %2
output z = %3
)");
}

TEST(ImportOpsTest, BatchNormalization) {
  const TestModel model =
      TestModel(9)
          .Input("x", {2, 3, 4, 4})
          .Initializer("s", Iota({3}))
          .Initializer("b", Iota({3}))
          .Initializer("m", Iota({3}))
          .Initializer("v", Iota({3}))
          .Node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}, {{"epsilon", 0.5}, {"momentum", 0.9}})
          .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4,4]
state s: f32[3]
state b: f32[3]
state m: f32[3]
state v: f32[3]
%0 = batch_norm(x, s, b, m, v, epsilon=0.5)
output y = %0
)");
}

TEST(ImportOpsTest, LayerNormalizationWithoutBiasAddsZeros) {
  const TestModel model = TestModel(17)
                              .Input("x", {2, 30})
                              .Initializer("s", Iota({30}))
                              .Node("LayerNormalization", {"x", "s"}, {"y"}, {{"epsilon", 0.5}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,30]
state s: f32[30]
const %0: f32[] = [0]
%1 = expand(%0, shape=[30])
%2 = layer_norm(x, s, %1, axis=1, epsilon=0.5)
output y = %2
)");
}

TEST(ImportOpsTest, SoftmaxBefore13FlattensSeveralAxes) {
  const TestModel model = TestModel(11).Input("x", {2, 3, 4}).Node("Softmax", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = reshape(x, shape=[2,12])
%1 = softmax(%0, axis=1)
%2 = reshape(%1, shape=[2,3,4])
output y = %2
)");
}

TEST(ImportOpsTest, SoftmaxBefore13OfOneWideAxisNeedsNoReshape) {
  const TestModel model = TestModel(9).Input("x", {2, 3, 1, 1}).Node("Softmax", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,1,1]
%0 = softmax(x, axis=1)
output y = %0
)");
}

TEST(ImportOpsTest, SoftmaxFrom13TakesOneAxis) {
  const TestModel model =
      TestModel(13).Input("x", {2, 3, 4}).Node("LogSoftmax", {"x"}, {"y"}, {{"axis", int64_t{1}}}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = log_softmax(x, axis=1)
output y = %0
)");
}

TEST(ImportOpsTest, ReduceAxesByAttribute) {
  const TestModel model = TestModel(12)
                              .Input("x", {2, 3, 4})
                              .Node("ReduceSum", {"x"}, {"y"}, {{"axes", List{-1, 0}}, {"keepdims", int64_t{0}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = reduce_sum(x, axes=[0,2], keepdims=0)
output y = %0
)");
}

TEST(ImportOpsTest, ReduceAxesByInput) {
  const TestModel model =
      TestModel(18).Input("x", {2, 3, 4}).Ints("axes", {1}).Node("ReduceMean", {"x", "axes"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = reduce_mean(x, axes=[1])
output y = %0
)");
}

TEST(ImportOpsTest, ReduceOverNoAxesIsOverAll) {
  const TestModel model = TestModel(18).Input("x", {2, 3}).Node("ReduceMax", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3]
%0 = reduce_max(x, axes=[0,1])
output y = %0
)");
}

TEST(ImportOpsTest, ReduceNoopIsNothing) {
  const TestModel model = TestModel(18)
                              .Input("x", {2, 3})
                              .Node("ReduceMax", {"x"}, {"y"}, {{"noop_with_empty_axes", int64_t{1}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3]
output y = x
)");
}

TEST(ImportOpsTest, ArgMaxOfTheLast) {
  const TestModel model = TestModel(13)
                              .Input("x", {2, 5})
                              .Node("ArgMax", {"x"}, {"y"}, {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,5]
const %0: i64[] = [4]
%1 = reverse(x, axes=[1])
%2 = argmax(%1, axis=1)
%3 = sub(%0, %2)
output y = %3
)");
}

TEST(ImportOpsTest, ClipByAttributesInputsAndOneSided) {
  const TestModel model = TestModel(13)
                              .Input("x", {3})
                              .Initializer("zero", Tensor::Scalar(DType::kFloat32, 0))
                              .Initializer("six", Tensor::Scalar(DType::kFloat32, 6))
                              .Node("Clip", {"x", "zero", "six"}, {"a"})
                              .Node("Clip", {"a", "zero"}, {"b"})
                              .Node("Clip", {"b", "", "six"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3]
%0 = clip(x, max=6.0, min=0.0)
%1 = relu(%0)
const %2: f32[] = [6]
%3 = min(%1, %2)
output y = %3
)");
}

TEST(ImportOpsTest, DropoutAndIdentityVanish) {
  const TestModel model = TestModel(13)
                              .Input("x", {3})
                              .Node("Dropout", {"x"}, {"a"})
                              .Node("Identity", {"a"}, {"b"})
                              .Node("Relu", {"b"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3]
%0 = relu(x)
output y = %0
)");
}

TEST(ImportOpsTest, VariadicSumAndMean) {
  const TestModel model = TestModel(13)
                              .Input("x", {3})
                              .Input("y", {3})
                              .Input("z", {3})
                              .Node("Sum", {"x", "y", "z"}, {"a"})
                              .Node("Mean", {"x", "y"}, {"b"})
                              .Output("a")
                              .Output("b");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3]
input y: f32[3]
input z: f32[3]
%0 = add(x, y)
%1 = add(%0, z)
const %2: f32[] = [2]
%3 = div(%0, %2)
output a = %1
output b = %3
)");
}

TEST(ImportOpsTest, GreaterIsLessExchanged) {
  const TestModel model = TestModel(13).Input("x", {3}).Input("y", {3}).Node("Greater", {"x", "y"}, {"z"}).Output("z");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3]
input y: f32[3]
%0 = less(y, x)
output z = %0
)");
}

TEST(ImportOpsTest, PowCastsTheExponent) {
  const TestModel model = TestModel(13)
                              .Input("x", {3})
                              .Initializer("two", Tensor::Scalar(DType::kInt64, 2))
                              .Node("Pow", {"x", "two"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3]
const %0: f32[] = [2]
%1 = pow(x, %0)
output y = %1
)");
}

TEST(ImportOpsTest, ShapeArithmeticIsComputed) {
  const TestModel model = TestModel(13)
                              .Input("x", {2, 3, 4})
                              .Node("Shape", {"x"}, {"s"})
                              .Ints("i", {0})
                              .Node("Gather", {"s", "i"}, {"n"})
                              .Ints("rest", {-1})
                              .Node("Concat", {"n", "rest"}, {"t"}, {{"axis", int64_t{0}}})
                              .Node("Reshape", {"x", "t"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = reshape(x, shape=[2,12])
output y = %0
)");
}

TEST(ImportOpsTest, ConstantsOfEveryKind) {
  const TestModel model = TestModel(13)
                              .Input("x", {2})
                              .Node("Constant", {}, {"a"}, {{"value_floats", std::vector<double>{1, 2}}})
                              .Node("Constant", {}, {"b"}, {{"value_float", 3.0}})
                              .Node("Add", {"x", "a"}, {"c"})
                              .Node("Mul", {"c", "b"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2]
const %0: f32[2] = [1,2]
%1 = add(x, %0)
const %2: f32[] = [3]
%3 = mul(%1, %2)
output y = %3
)");
}

TEST(ImportOpsTest, LargeConstantsAreWeights) {
  const TestModel model = TestModel(13)
                              .Input("x", {20})
                              .Node("Constant", {}, {"a"}, {{"value", Iota({20})}})
                              .Ints("s", {20})
                              .Node("ConstantOfShape", {"s"}, {"b"}, {{"value", Iota({1})}})
                              .Node("Add", {"x", "a"}, {"c"})
                              .Node("Mul", {"c", "b"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[20]
state a: f32[20]
%0 = add(x, a)
state b: f32[20]
%1 = mul(%0, b)
output y = %1
)");
}

}  // namespace
}  // namespace rewright
