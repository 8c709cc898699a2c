// Tests the imports of operators that cut, move, repeat, order and scatter elements, in printed form; the conformance
// tests check their values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using List = std::vector<int64_t>;

Tensor Scalar64(int64_t value) {
  Tensor scalar(TensorType{DType::kInt64, {}});
  scalar.SetInt(0, value);
  return scalar;
}

TEST(ImportMoveTest, SliceByAttributes) {
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

TEST(ImportMoveTest, SliceBackwardsReverses) {
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

TEST(ImportMoveTest, SliceOfEverythingIsNothing) {
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

TEST(ImportMoveTest, SplitIntoUnequalParts) {
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

TEST(ImportMoveTest, PadByAttributeAndCrop) {
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
TEST(ImportMoveTest, PadByALargeInteger) {
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

TEST(ImportMoveTest, RangeOfLargeIntegers) {
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

TEST(ImportMoveTest, PadByReflection) {
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

TEST(ImportMoveTest, ReshapeKeepsAndInfers) {
  const TestModel model =
      TestModel(13).Input("x", {2, 3, 4}).Ints("s", {0, -1, 2}).Node("Reshape", {"x", "s"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,3,4]
%0 = reshape(x, shape=[2,6,2])
output y = %0
)");
}

TEST(ImportMoveTest, FlattenSqueezeUnsqueeze) {
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

TEST(ImportMoveTest, ExpandStretchesBothSides) {
  const TestModel model =
      TestModel(13).Input("x", {3, 1}).Ints("s", {2, 1, 4}).Node("Expand", {"x", "s"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[3,1]
%0 = expand(x, shape=[2,3,4])
output y = %0
)");
}

TEST(ImportMoveTest, TileReshapesAndExpands) {
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

TEST(ImportMoveTest, ResizeToTheNearestRepeats) {
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

TEST(ImportMoveTest, TriluComparesRowsAndColumns) {
  const TestModel model = TestModel(14).Input("x", {2, 2}).Node("Trilu", {"x"}, {"y"}).Output("y");
  EXPECT_EQ(Printed(model), R"(
input x: f32[2,2]
const %0: bool[2,2] = [1,1,0,1]
const %1: f32[] = [0]
%2 = where(%0, x, %1)
output y = %2
)");
}

// ---------------------------------------------------------------- scattered sums, orders

TEST(ImportMoveTest, ScattersThatAdd) {
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

TEST(ImportMoveTest, ScattersThatReplaceNeedKnownIndices) {
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

TEST(ImportMoveTest, KnownIndicesOfScattersAreChecked) {
  EXPECT_EQ(TestModel(18)
                .Input("x", {3})
                .Ints("i", {3})
                .Input("u", {1})
                .Node("ScatterElements", {"x", "i", "u"}, {"y"}, {{"reduction", "add"}})
                .Output("y")
                .Error(),
            "test.onnx: node giving \"y\" (ScatterElements): index 3 along axis 0 of f32[3]");
}

TEST(ImportMoveTest, ElementsThatIndicesPickAndSumsAlongAnAxis) {
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

TEST(ImportMoveTest, TopKInAllVersions) {
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

// An axis of size 1 has the first element as its only position, at any reach of the window.
TEST(ImportMoveTest, ResizeAsPyTorchToOneElementTakesTheFirst) {
  const auto imported = TestModel(19)
                            .Input("x", {1, 1, 4, 3})
                            .Ints("sizes", {1, 1, 1, 3})
                            .Node("Resize", {"x", "", "", "sizes"}, {"y"},
                                  {{"mode", "cubic"}, {"coordinate_transformation_mode", "pytorch_half_pixel"}})
                            .Output("y")
                            .Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Tensor y = OutputsOf(imported->graph, {{"x", Iota({1, 1, 4, 3})}})[0];
  for (int64_t k = 0; k < 3; ++k) EXPECT_NEAR(y.At(k), static_cast<double>(k), 1e-6) << k;
}

// Indices count from the end of their own part of the batch.
TEST(ImportMoveTest, GatherNdCountsFromTheEndOfEachBatch) {
  const auto imported = TestModel(13)
                            .Input("x", {2, 3})
                            .Input("i", {2, 2, 1}, DType::kInt64)
                            .Node("GatherND", {"x", "i"}, {"y"}, {{"batch_dims", int64_t{1}}})
                            .Output("y")
                            .Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  Tensor indices(TensorType{DType::kInt64, {2, 2, 1}});
  const int64_t values[] = {-1, 0, -3, 1};
  for (int64_t k = 0; k < 4; ++k) indices.SetInt(k, values[k]);
  const Tensor y = OutputsOf(imported->graph, {{"x", Iota({2, 3})}, {"i", indices}})[0];
  const double expected[] = {2, 0, 3, 4};
  for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(y.At(k), expected[k]) << k;
}

}  // namespace
}  // namespace rewright
