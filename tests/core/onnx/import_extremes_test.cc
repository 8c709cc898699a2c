// Tests values of imported operators at the ends of their types: integers that nearly overflow, infinities, NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

Tensor Integers(DType dtype, const std::vector<int64_t>& values, const Shape& shape) {
  Tensor tensor(TensorType{dtype, shape});
  for (size_t i = 0; i < values.size(); ++i) tensor.SetInt(static_cast<int64_t>(i), values[i]);
  return tensor;
}
Tensor Integers(DType dtype, const std::vector<int64_t>& values) {
  return Integers(dtype, values, {static_cast<int64_t>(values.size())});
}

std::vector<int64_t> Listed(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(tensor.AtInt(i));
  return values;
}

// Returns the output of a node; operands that are not inputs are initializers.
Tensor Computed(const char* op_type, const std::vector<Tensor>& operands, const std::vector<bool>& is_input,
                const TestAttrs& attrs = {}, int64_t opset = 17) {
  TestModel model(opset);
  std::map<std::string, Tensor> inputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < operands.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    if (is_input[i]) {
      model.Input(names.back(), operands[i].shape(), operands[i].dtype());
      inputs.emplace(names.back(), operands[i]);
    } else {
      model.Initializer(names.back(), operands[i]);
    }
  }
  model.Node(op_type, names, {"y"}, attrs).Output("y");
  const auto imported = model.Import();
  EXPECT_TRUE(imported.ok()) << imported.status();
  return imported.ok() ? OutputsOf(imported->graph, inputs).at(0) : Tensor();
}

TEST(ImportExtremes, RemaindersOfIntegersThatNearlyOverflow) {
  const auto rest = [](DType dtype, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    return Listed(Computed("Mod", {Integers(dtype, a), Integers(dtype, b)}, {true, true}));
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(rest(DType::kInt64, {kMost - 1, 9, -1, 1, kLeast, kLeast, -7, 7, -7, 6},
                   {kMost, 7, kMost, kLeast, -1, kMost, 3, -3, -3, 3}),
              ElementsAre(kMost - 1, 2, kMost - 1, kLeast + 1, 0, kMost - 1, 2, -2, -1, 0));
  constexpr int64_t kMost32 = std::numeric_limits<int32_t>::max(), kLeast32 = std::numeric_limits<int32_t>::min();
  EXPECT_THAT(rest(DType::kInt32, {kMost32 - 1, -1, 1, kLeast32}, {kMost32, kMost32, kLeast32, kMost32}),
              ElementsAre(kMost32 - 1, kMost32 - 1, kLeast32 + 1, kMost32 - 1));
  EXPECT_THAT(rest(DType::kUInt64, {-2, -1, 5}, {-1, -2, 3}), ElementsAre(-2, 1, 2));
  EXPECT_THAT(rest(DType::kUInt32, {0xfffffffe, 0xffffffff}, {0xffffffff, 0xfffffffe}), ElementsAre(0xfffffffe, 1));
  EXPECT_THAT(rest(DType::kInt8, {126, -1, -128}, {127, 127, 127}), ElementsAre(126, 126, 126));
}

TEST(ImportExtremes, PowersOfIntegersAreExact) {
  const auto power = [](const Tensor& x, const Tensor& e, bool known) {
    return Listed(Computed("Pow", {x, e}, {true, !known}));
  };
  const std::vector<int64_t> bases = {134217729, 3, -3, 0, 1, -1, 2};
  for (bool known : {true, false}) {
    const Tensor x = Integers(DType::kInt64, bases);
    EXPECT_THAT(power(x, Integers(DType::kInt64, {2}, {}), known),
                ElementsAre(int64_t{134217729} * 134217729, 9, 9, 0, 1, 1, 4));
    EXPECT_THAT(power(x, Integers(DType::kInt32, {0}, {}), known), ElementsAre(1, 1, 1, 1, 1, 1, 1));
    EXPECT_THAT(power(x, Integers(DType::kInt64, {2, 39, 3, 7, 1LL << 40, (1LL << 40) + 1, 62}), known),
                ElementsAre(int64_t{134217729} * 134217729, 4052555153018976267, -27, 0, 1, -1, int64_t{1} << 62));
    EXPECT_THAT(power(x, Integers(DType::kInt64, {-2, -1, -1, 0, -5, -5, -1}), known),
                ElementsAre(0, 0, 0, 1, 1, -1, 0));
    EXPECT_THAT(power(x, Integers(DType::kUInt64, {1, 1, 1, 1, -1, -1, 1}), known),
                ElementsAre(134217729, 3, -3, 0, 1, -1, 2));
    // Powers that overflow wrap around, as NumPy's do.
    EXPECT_THAT(power(Integers(DType::kInt32, {3, 3, -3, 2, 5, 3}),
                      Integers(DType::kInt32, {64, 65, 67, 64, 100, 2147483647}), known),
                ElementsAre(2038349057, 1820079875, 799150309, 0, -1971132175, -1431655765));
    EXPECT_THAT(power(Integers(DType::kUInt8, {3, 7, 2}), Integers(DType::kUInt64, {255, -1, 8}), known),
                ElementsAre(171, 183, 0));
    EXPECT_THAT(power(Integers(DType::kInt64, {3, -3}), Integers(DType::kInt64, {100, 1000000000001}), known),
                ElementsAre(-2984622845537545263, -5790018774408740867));
    // The exponent's shape is the larger one.
    EXPECT_THAT(power(Integers(DType::kInt32, {5}, {}), Integers(DType::kInt32, {3, 3}, {2, 1}), known),
                ElementsAre(125, 125));
  }
  const Tensor real = Tensor::FromVector(DType::kFloat32, {}, std::vector<float>{2});
  EXPECT_THAT(power(Integers(DType::kInt64, bases), real, true).at(0), int64_t{134217729} * 134217729);
}

// An exponent that the base's type cannot hold is not rounded to it.
TEST(ImportExtremes, PowersOfHalvesKeepTheirExponent) {
  const Tensor x = Tensor::FromVector(DType::kBFloat16, {1}, std::vector<float>{1.0078125f});
  const Tensor e = Integers(DType::kInt64, {259}, {});
  for (bool known : {true, false}) {
    EXPECT_NEAR(Computed("Pow", {x, e}, {true, !known}).At(0), std::pow(1.0078125, 259), 0.016) << known;
  }
}

TEST(ImportExtremes, LogarithmsOfSumsOfExponentialsOfInfinities) {
  const float inf = HUGE_VALF, nan = std::nanf("");
  const Tensor x = Tensor::FromVector(
      DType::kFloat32, {6, 3},
      std::vector<float>{-inf, -inf, -inf, inf, 1, 2, inf, -inf, 0, -inf, 1, 1, nan, 1, inf, 1000, 1000, -inf});
  for (int64_t keepdims : {0, 1}) {
    const Tensor y =
        Computed("ReduceLogSumExp", {x}, {true}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", keepdims}});
    EXPECT_EQ(y.At(0), -inf);
    EXPECT_EQ(y.At(1), inf);
    EXPECT_EQ(y.At(2), inf);
    EXPECT_NEAR(y.At(3), 1 + std::log(2), 1e-6);
    EXPECT_TRUE(std::isnan(y.At(4)));
    EXPECT_NEAR(y.At(5), 1000 + std::log(2), 1e-3);
  }
}

// Unsigned numbers have no negatives, and the least number has none either.
TEST(ImportExtremes, ArgMinOfIntegers) {
  const auto least = [](DType dtype, const std::vector<int64_t>& x) {
    return Listed(Computed("ArgMin", {Integers(dtype, x)}, {true}, {{"axis", int64_t{0}}})).at(0);
  };
  EXPECT_EQ(least(DType::kUInt8, {3, 0, 5, 0}), 1);
  EXPECT_EQ(least(DType::kUInt64, {-1, 7, 9}), 1);
  EXPECT_EQ(least(DType::kInt8, {5, -128, 3}), 1);
  EXPECT_EQ(least(DType::kInt64, {0, 4, std::numeric_limits<int64_t>::min()}), 2);
  EXPECT_EQ(least(DType::kInt32, {2, -1, -1}), 1);
}

// The list is longer than those that are checked element by element.
TEST(ImportExtremes, ScatterAtMoreThanAMillionKnownIndices) {
  constexpr int64_t kCount = (int64_t{1} << 20) + 1;
  Tensor indices(TensorType{DType::kInt64, {kCount, 1}}), updates(TensorType{DType::kFloat32, {kCount}});
  for (int64_t i = 0; i < kCount; ++i) {
    indices.SetInt(i, kCount - 1 - i);
    updates.Set(i, static_cast<double>(i % 1000));
  }
  const Tensor y =
      Computed("ScatterND", {Tensor(TensorType{DType::kFloat32, {kCount + 1}}), indices, updates}, {true, false, true});
  ASSERT_EQ(y.num_elements(), kCount + 1);
  EXPECT_EQ(y.At(0), static_cast<double>((kCount - 1) % 1000));
  EXPECT_EQ(y.At(kCount - 5), 4);
  EXPECT_EQ(y.At(kCount), 0);
}

}  // namespace
}  // namespace rewright
