// What the operators of ONNX become, in printed form; their values are checked by the conformance tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>

#include "core/ir/text.h"
#include "model_util.h"

namespace rewright {
namespace {

using List = std::vector<int64_t>;

Tensor Scalar64(int64_t value) {
  Tensor scalar(TensorType{DType::kInt64, {}});
  scalar.SetInt(0, value);
  return scalar;
}

// The printed graph without the types that the printer adds as comments; an error's message.
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

// One node of this operator, applied to x.
std::string PrintedNode(int64_t opset, const char* op_type, const TestAttrs& attrs = {}) {
  return Printed(TestModel(opset).Input("x", {3}).Node(op_type, {"x"}, {"y"}, attrs).Output("y"));
}

TEST(ImportOpsTest, ActivationsAreOperators) {
  const auto expected = [](const std::string& op) { return "\ninput x: f32[3]\n%0 = " + op + "(x)\noutput y = %0\n"; };
  EXPECT_EQ(PrintedNode(20, "Gelu"), expected("gelu"));
  EXPECT_EQ(PrintedNode(20, "Gelu", {{"approximate", "tanh"}}), expected("gelu_tanh"));
  EXPECT_EQ(PrintedNode(14, "HardSwish"), expected("hard_swish"));
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

// Attributes that a file leaves out are ONNX's.
TEST(ImportOpsTest, FunctionsWithAttributes) {
  const auto expected = [](const std::string& call) { return "\ninput x: f32[3]\n%0 = " + call + "\noutput y = %0\n"; };
  EXPECT_EQ(PrintedNode(22, "Elu"), expected("elu(x)"));
  EXPECT_EQ(PrintedNode(22, "Elu", {{"alpha", 0.5}}), expected("elu(x, alpha=0.5)"));
  EXPECT_EQ(PrintedNode(16, "LeakyRelu", {{"alpha", 0.5}}), expected("leaky_relu(x, alpha=0.5)"));
  EXPECT_EQ(PrintedNode(12, "Celu"), expected("elu(x)"));
  EXPECT_EQ(PrintedNode(12, "Celu", {{"alpha", 0.5}}), R"(
input x: f32[3]
const %0: f32[] = [0.5]
%1 = div(x, %0)
%2 = elu(%1, alpha=0.5)
const %3: f32[] = [0]
%4 = less(%3, x)
%5 = where(%4, x, %2)
output y = %5
)");
}

// The nearest number to a sixth means a sixth, of which hard_swish is made.
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

TEST(ImportOpsTest, SliceByAttributes) {
  const TestModel model = TestModel(9)
                              .Input("x", {4, 6})
                              .Node("Slice", {"x"}, {"y"}, {{"starts", List{1}}, {"ends", List{-1}}, {"axes", List{1}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[4,6]
%0 = slice(x, starts=[0,1], stops=[4,5])
output y = %0
)");
}

TEST(ImportOpsTest, SliceBackwardsReverses) {
  const TestModel model = TestModel(13)
                              .Input("x", {4, 6})
                              .Ints("s", {-2})
                              .Ints("e", {INT64_MIN})
                              .Ints("a", {1})
                              .Ints("t", {-2})
                              .Node("Slice", {"x", "s", "e", "a", "t"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[4,6]
%0 = reverse(x, axes=[1])
%1 = slice(%0, starts=[0,1], steps=[1,2], stops=[4,6])
output y = %1
)");
}

TEST(ImportOpsTest, SliceOfEverythingIsNothing) {
  const TestModel model = TestModel(13)
                              .Input("x", {4})
                              .Ints("s", {0})
                              .Ints("e", {INT64_MAX})
                              .Node("Slice", {"x", "s", "e"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[4]
output y = x
)");
}

TEST(ImportOpsTest, SplitIntoUnequalParts) {
  const TestModel model = TestModel(18)
                              .Input("x", {7})
                              .Node("Split", {"x"}, {"a", "b", "c"}, {{"num_outputs", int64_t{3}}})
                              .Output("a")
                              .Output("c");
  EXPECT_EQ(Printed(model), R"(
input x: f32[7]
%0.0, %0.1, %0.2 = split(x, axis=0, sizes=[3,3,1])
output a = %0.0
output c = %0.2
)");
}

TEST(ImportOpsTest, PadByAttributeAndCrop) {
  const TestModel model = TestModel(10)
                              .Input("x", {4, 4})
                              .Node("Pad", {"x"}, {"y"}, {{"pads", List{1, -1, 0, 2}}, {"value", 3.0}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[4,4]
%0 = slice(x, starts=[0,1], stops=[4,4])
%1 = pad(%0, after=[0,2], before=[1,0], value=3.0)
output y = %1
)");
}

// Doubles cannot tell 2^53 and 2^53 + 1 apart.
TEST(ImportOpsTest, PadByALargeInteger) {
  const TestModel model = TestModel(13)
                              .Input("x", {2}, DType::kInt64)
                              .Initializer("p", Tensor::Int64s({1, 0}))
                              .Initializer("v", Scalar64(9007199254740993))
                              .Node("Pad", {"x", "p", "v"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: i64[2]
const %0: i64[] = [9007199254740993]
%1 = sub(x, %0)
%2 = pad(%1, after=[0], before=[1])
%3 = add(%2, %0)
output y = %3
)");
}

TEST(ImportOpsTest, RangeOfLargeIntegers) {
  const TestModel model = TestModel(13)
                              .Initializer("start", Scalar64(INT64_MAX - 2))
                              .Initializer("limit", Scalar64(INT64_MAX))
                              .Initializer("delta", Scalar64(1))
                              .Node("Range", {"start", "limit", "delta"}, {"y"})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
const %0: i64[2] = [9223372036854775805,9223372036854775806]
output y = %0
)");
}

TEST(ImportOpsTest, PadByReflection) {
  const TestModel model = TestModel(13)
                              .Input("x", {4})
                              .Ints("p", {2, 1})
                              .Node("Pad", {"x", "p"}, {"y"}, {{"mode", std::string("reflect")}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[4]
%0 = slice(x, starts=[1], stops=[3])
%1 = reverse(%0, axes=[0])
%2 = slice(x, starts=[2], stops=[3])
%3 = reverse(%2, axes=[0])
%4 = concat(%1, x, %3, axis=0)
output y = %4
)");
}

TEST(ImportOpsTest, ReshapeKeepsAndInfers) {
  const TestModel model =
      TestModel(13).Input("x", {2, 3, 4}).Ints("s", {0, -1, 2}).Node("Reshape", {"x", "s"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = reshape(x, shape=[2,6,2])
output y = %0
)");
}

TEST(ImportOpsTest, FlattenSqueezeUnsqueeze) {
  const TestModel model = TestModel(12)
                              .Input("x", {2, 3, 4})
                              .Node("Flatten", {"x"}, {"a"})
                              .Node("Unsqueeze", {"a"}, {"b"}, {{"axes", List{0, -1}}})
                              .Node("Squeeze", {"b"}, {"y"}, {{"axes", List{0}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = reshape(x, shape=[2,12])
%1 = reshape(%0, shape=[1,2,12,1])
%2 = reshape(%1, shape=[2,12,1])
output y = %2
)");
}

TEST(ImportOpsTest, ExpandStretchesBothSides) {
  const TestModel model =
      TestModel(13).Input("x", {3, 1}).Ints("s", {2, 1, 4}).Node("Expand", {"x", "s"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3,1]
%0 = expand(x, shape=[2,3,4])
output y = %0
)");
}

TEST(ImportOpsTest, TileReshapesAndExpands) {
  const TestModel model =
      TestModel(13).Input("x", {3, 2}).Ints("r", {2, 1}).Node("Tile", {"x", "r"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3,2]
%0 = reshape(x, shape=[1,3,2])
%1 = expand(%0, shape=[2,3,2])
%2 = reshape(%1, shape=[6,2])
output y = %2
)");
}

TEST(ImportOpsTest, ResizeToTheNearestRepeats) {
  const TestModel model = TestModel(13)
                              .Input("x", {1, 1, 2, 2})
                              .Initializer("s", Tensor::FromVector<double>(DType::kFloat32, {4}, {1, 1, 2, 2}))
                              .Node("Resize", {"x", "", "s"}, {"y"},
                                    {{"mode", std::string("nearest")},
                                     {"coordinate_transformation_mode", std::string("asymmetric")},
                                     {"nearest_mode", std::string("floor")}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[1,1,2,2]
%0 = reshape(x, shape=[1,1,2,1,2,1])
%1 = expand(%0, shape=[1,1,2,2,2,2])
%2 = reshape(%1, shape=[1,1,4,4])
output y = %2
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

TEST(ImportOpsTest, TriluComparesRowsAndColumns) {
  const TestModel model = TestModel(14).Input("x", {2, 2}).Node("Trilu", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,2]
const %0: bool[2,2] = [1,1,0,1]
const %1: f32[] = [0]
%2 = where(%0, x, %1)
output y = %2
)");
}

// ---------------------------------------------------------------- sums where data says, orders

TEST(ImportOpsTest, ScattersThatAdd) {
  const TestModel model =
      TestModel(18)
          .Input("x", {4, 3})
          .Input("i", {2, 3}, DType::kInt64)
          .Input("j", {5, 1}, DType::kInt64)
          .Input("u", {2, 3})
          .Input("v", {5, 3})
          .Node("ScatterElements", {"x", "i", "u"}, {"a"}, {{"reduction", "add"}, {"axis", int64_t{-2}}})
          .Node("ScatterND", {"a", "j", "v"}, {"b"}, {{"reduction", "add"}})
          .Output("b");
  EXPECT_EQ(Printed(model), R"(
input x: f32[4,3]
input i: i64[2,3]
input j: i64[5,1]
input u: f32[2,3]
input v: f32[5,3]
%0 = scatter_elements_add(x, i, u)
%1 = reshape(j, shape=[5])
%2 = scatter_add(%0, %1, v)
output b = %2
)");
}

TEST(ImportOpsTest, ScattersThatReplaceNeedKnownIndices) {
  const auto error = [](const char* op, const Shape& indices, const std::string& reduction) {
    TestModel model(18);
    model.Input("x", {4, 3}).Input("i", indices, DType::kInt64).Input("u", {2, 3});
    if (reduction.empty()) return model.Node(op, {"x", "i", "u"}, {"y"}).Output("y").Error();
    return model.Node(op, {"x", "i", "u"}, {"y"}, {{"reduction", reduction}}).Output("y").Error();
  };
  EXPECT_THAT(error("ScatterElements", {2, 3}, ""),
              testing::HasSubstr("ScatterElements: input indices (tensor \"i\") depends on the inputs of the model"));
  EXPECT_THAT(error("ScatterND", {2, 1}, "max"), testing::HasSubstr("ScatterND: reduction = max; expected add"));
  EXPECT_THAT(error("ScatterND", {2, 3}, "add"), testing::HasSubstr("tuples of 3 indices into f32[4,3]"));
  const TestModel twice = TestModel(18)
                              .Input("x", {4})
                              .Ints("i", {1, 1})
                              .Input("u", {2})
                              .Node("ScatterElements", {"x", "i", "u"}, {"y"})
                              .Output("y");
  EXPECT_THAT(twice.Error(), testing::HasSubstr("reduction = none at indices that are there twice"));
}

TEST(ImportOpsTest, KnownIndicesOfScattersAreChecked) {
  EXPECT_EQ(TestModel(18)
                .Input("x", {3})
                .Ints("i", {3})
                .Input("u", {1})
                .Node("ScatterElements", {"x", "i", "u"}, {"y"}, {{"reduction", "add"}})
                .Output("y")
                .Error(),
            "test.onnx: node giving \"y\" (ScatterElements): index 3 along axis 0 of f32[3]");
}

TEST(ImportOpsTest, ElementsThatIndicesPickAndSumsAlongAnAxis) {
  const TestModel model = TestModel(14)
                              .Input("x", {4, 3})
                              .Input("i", {2, 3}, DType::kInt64)
                              .Ints("a", {-2})
                              .Node("GatherElements", {"x", "i"}, {"g"}, {{"axis", int64_t{-2}}})
                              .Node("CumSum", {"g", "a"}, {"y"}, {{"exclusive", int64_t{1}}})
                              .Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[4,3]
input i: i64[2,3]
%0 = gather_elements(x, i)
%1 = cumsum(%0, axis=0, exclusive=1)
output y = %1
)");
  EXPECT_EQ(TestModel(14).Input("x", {4, 3}).Ints("a", {2}).Node("CumSum", {"x", "a"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (CumSum): axis 2 of a tensor with 2 axes");
}

TEST(ImportOpsTest, TopKInAllVersions) {
  for (int64_t opset : {7, 10, 11, 24}) {
    TestModel model(opset);
    model.Input("x", {4, 3});
    if (opset < 10) {
      model.Node("TopK", {"x"}, {"v", "i"}, {{"k", int64_t{2}}, {"axis", int64_t{0}}});
    } else if (opset < 11) {
      model.Ints("k", {2}).Node("TopK", {"x", "k"}, {"v", "i"}, {{"axis", int64_t{0}}});
    } else {
      model.Ints("k", {2}).Node("TopK", {"x", "k"}, {"v", "i"},
                                {{"axis", int64_t{-2}}, {"largest", int64_t{1}}, {"sorted", int64_t{0}}});
    }
    EXPECT_EQ(Printed(model.Output("v").Output("i")), R"(
input x: f32[4,3]
%0.0, %0.1 = top_k(x, axis=0, k=2)
output v = %0.0
output i = %0.1
)") << opset;
  }
  EXPECT_THAT(TestModel(11).Input("x", {3}).Ints("k", {4}).Node("TopK", {"x", "k"}, {"v"}).Output("v").Error(),
              testing::HasSubstr("top_k: shape [3]: k must not exceed the size of the axis (found 4 <= 3)"));
}

}  // namespace
}  // namespace rewright
