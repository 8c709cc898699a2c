// Tests models of narrow types: reading every form of the format, values of quantized operators, writing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/onnx/proto.h"
#include "core/tensor/compare.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

Tensor Of(DType dtype, const Shape& shape, const std::vector<double>& values) {
  return Tensor::FromVector(dtype, shape, values);
}

std::vector<double> Elements(const Tensor& tensor) {
  std::vector<double> elements;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) elements.push_back(tensor.At(i));
  return elements;
}

// Elements are in raw data, or in the typed field that the format has for the type.
TEST(NarrowTypesTest, TensorsAreReadInBothForms) {
  const std::vector<double> values = {0, 1, 2, 100};
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    const Tensor expected = Of(dtype, {4}, values);
    onnx::TensorProto raw;
    FillTensor("t", expected, &raw);
    onnx::TensorProto typed;
    FillTensorType("t", expected.type(), &typed);
    for (int64_t i = 0; i < 4; ++i) {
      VisitDType(dtype, [&](auto t) {
        using T = typename decltype(t)::Type;
        const T element = expected.as<T>()[i];
        if constexpr (std::is_same_v<T, float>) {
          typed.add_float_data(element);
        } else if constexpr (std::is_same_v<T, double>) {
          typed.add_double_data(element);
        } else if constexpr (std::is_same_v<T, int64_t>) {
          typed.add_int64_data(element);
        } else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>) {
          typed.add_uint64_data(element);
        } else if constexpr (std::is_integral_v<T>) {
          typed.add_int32_data(element);
        } else {
          typed.add_int32_data(std::bit_cast<uint16_t>(element));
        }
      });
    }
    for (const onnx::TensorProto& proto : {raw, typed}) {
      const auto read = TensorFromProto(proto, "");
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(read->BitEqual(expected)) << DTypeName(dtype);
    }
  }
}

Graph Imported(const TestModel& model) {
  auto imported = model.Import();
  EXPECT_TRUE(imported.ok()) << imported.status();
  return imported.ok() ? imported->graph : Graph();
}

TEST(NarrowTypesTest, HalvesAreReadWrittenAndRounded) {
  for (DType half : {DType::kFloat16, DType::kBFloat16}) {
    TestModel model(18);
    model.Input("x", {2, 2}, half)
        .Initializer("w", Of(half, {2, 2}, {1, 0.1, -2, 3}))
        .Node("MatMul", {"x", "w"}, {"y"})
        .Node("Cast", {"y"}, {"z"}, {{"to", int64_t{1}}})
        .Output("y")
        .Output("z");
    const Graph graph = Imported(model);
    const Tensor x = Of(half, {2, 2}, {1, 2, 0.3, 4});
    const std::vector<Tensor> outputs = OutputsOf(graph, {{"x", x}});
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0].dtype(), half);
    EXPECT_EQ(outputs[1].dtype(), DType::kFloat32);
    const double w = NearestOf(half, 0.1), a = NearestOf(half, 0.3);
    EXPECT_EQ(outputs[0].At(1), NearestOf(half, w + 6));
    EXPECT_EQ(outputs[1].At(2), NearestOf(half, a - 8));
    const auto written = ExportOnnxBytes(graph, {}, {});
    ASSERT_TRUE(written.ok()) << written.status();
    const auto again = ImportOnnxBytes(*written, "written", "");
    ASSERT_TRUE(again.ok()) << again.status();
    const std::vector<Tensor> same = OutputsOf(again->graph, {{"x", x}});
    for (size_t k = 0; k < outputs.size(); ++k) EXPECT_TRUE(same[k].BitEqual(outputs[k])) << k;
  }
}

// Halves are rounded to the even number, and too large values become the largest one.
TEST(NarrowTypesTest, QuantizeLinearRoundsAndSaturates) {
  TestModel model(19);
  model.Input("x", {6})
      .Initializer("s", Of(DType::kFloat32, {}, {2}))
      .Initializer("z", Of(DType::kUInt8, {}, {128}))
      .Node("QuantizeLinear", {"x", "s", "z"}, {"y"})
      .Node("DequantizeLinear", {"y", "s", "z"}, {"d"})
      .Output("y")
      .Output("d");
  const auto outputs = OutputsOf(Imported(model), {{"x", Of(DType::kFloat32, {6}, {0, 1, 3, 5, 1000, -1000})}});
  EXPECT_THAT(Elements(outputs[0]), testing::ElementsAre(128, 128, 130, 130, 255, 0));
  EXPECT_THAT(Elements(outputs[1]), testing::ElementsAre(0, 0, 4, 4, 254, -256));
}

TEST(NarrowTypesTest, ScalesAlongAnAxisAndInBlocks) {
  TestModel model(21);
  model.Input("x", {2, 4}, DType::kInt8)
      .Initializer("s", Of(DType::kFloat32, {2}, {2, 0.5}))
      .Initializer("b", Of(DType::kFloat32, {2, 2}, {1, 2, 3, 4}))
      .Node("DequantizeLinear", {"x", "s"}, {"y"}, {{"axis", int64_t{0}}})
      .Node("DequantizeLinear", {"x", "b"}, {"z"}, {{"axis", int64_t{1}}, {"block_size", int64_t{2}}})
      .Output("y")
      .Output("z");
  const auto outputs = OutputsOf(Imported(model), {{"x", Of(DType::kInt8, {2, 4}, {1, -2, 3, 4, 5, 6, -7, 8})}});
  EXPECT_THAT(Elements(outputs[0]), testing::ElementsAre(2, -4, 6, 8, 2.5, 3, -3.5, 4));
  EXPECT_THAT(Elements(outputs[1]), testing::ElementsAre(1, -2, 6, 8, 15, 18, -28, 32));
}

TEST(NarrowTypesTest, IntegerProductsDoNotOverflow) {
  TestModel model(17);
  model.Input("a", {1, 3}, DType::kUInt8)
      .Input("b", {3, 2}, DType::kInt8)
      .Initializer("az", Of(DType::kUInt8, {}, {5}))
      .Initializer("bz", Of(DType::kInt8, {2}, {0, 1}))
      .Node("MatMulInteger", {"a", "b", "az", "bz"}, {"y"})
      .Output("y");
  const auto outputs = OutputsOf(Imported(model), {{"a", Of(DType::kUInt8, {1, 3}, {255, 0, 250})},
                                                   {"b", Of(DType::kInt8, {3, 2}, {127, -128, -128, 0, 127, 127})}});
  EXPECT_EQ(outputs[0].dtype(), DType::kInt32);
  EXPECT_THAT(Elements(outputs[0]), testing::ElementsAre(250 * 127 + 5 * 128 + 245 * 127, -250 * 129 + 5 + 245 * 126));
}

TEST(NarrowTypesTest, OtherNumbersOfQuantizedTypesAreRefused) {
  TestModel model(19);
  model.Input("x", {2})
      .Initializer("s", Of(DType::kFloat32, {}, {2}))
      .Initializer("z", Of(DType::kInt32, {}, {0}))
      .Node("QuantizeLinear", {"x", "s", "z"}, {"y"})
      .Output("y");
  EXPECT_THAT(model.Error(), testing::HasSubstr("QuantizeLinear: quantized elements of type i32"));
}

// PyTorch exports such a graph for a model in float16 whose grid is computed in float32.
TEST(NarrowTypesTest, GridsAreOfAnotherTypeThanImages) {
  const auto sampled = [](DType image, DType grid) {
    TestModel model(20);
    model.Input("x", {1, 1, 2, 2}, image).Input("grid", {1, 1, 3, 2}, grid).Node("GridSample", {"x", "grid"}, {"y"});
    const Graph graph = Imported(model.Output("y"));
    return OutputsOf(graph, {{"x", Of(image, {1, 1, 2, 2}, {1, 2, 3, 4})},
                             {"grid", Of(grid, {1, 1, 3, 2}, {0, 0, -0.5, -0.5, 0.25, 0.5})}})[0];
  };
  const Tensor expected = sampled(DType::kFloat32, DType::kFloat32);
  for (DType half : {DType::kFloat16, DType::kBFloat16}) {
    const Tensor of_halves = sampled(half, DType::kFloat32);
    EXPECT_EQ(of_halves.dtype(), half);
    EXPECT_EQ(Elements(of_halves), Elements(sampled(DType::kFloat32, half)));
    EXPECT_EQ(Elements(of_halves), Elements(expected));
  }
}

}  // namespace
}  // namespace rewright
