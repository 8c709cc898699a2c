#include "core/tensor/compare.h"

#include <cmath>
#include <limits>

#include "core/ir/random_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor F32(const std::vector<double>& values) {
  return Tensor::FromVector(DType::kFloat32, {2, static_cast<int64_t>(values.size()) / 2}, values);
}

TEST(CompareTest, EqualTensors) {
  const Tensor a = F32({1, kInf, -kInf, kNaN});
  const Comparison c = Compare(a, a);
  EXPECT_TRUE(c.close);
  EXPECT_EQ(c.worst, -1);
  EXPECT_EQ(c.text, "equal");
}

TEST(CompareTest, FindsTheWorstElement) {
  const Comparison c = Compare(F32({1, 2.5, 100, 4}), F32({1, 2, 101, 4}), 0.02, 0);
  EXPECT_FALSE(c.close);
  EXPECT_EQ(c.worst, 1);  // 101 is within two percent
  EXPECT_EQ(c.worst_a, 2.5);
  EXPECT_EQ(c.worst_b, 2);
  EXPECT_EQ(c.max_abs, 1);
  EXPECT_EQ(c.max_rel, 0.25);
  EXPECT_THAT(c.text, HasSubstr("[0,1]"));
  EXPECT_TRUE(Compare(F32({1, 2.5, 100, 4}), F32({1, 2, 101, 4}), 0.25, 0).close);
  EXPECT_TRUE(Compare(F32({1, 2.5, 100, 4}), F32({1, 2, 101, 4}), 0, 1).close);
}

TEST(CompareTest, IntegersAreExact) {
  const int64_t large = int64_t{1} << 53;
  const Tensor a = Tensor::Int64s({large, INT64_MIN}), b = Tensor::Int64s({large + 1, INT64_MAX});
  EXPECT_TRUE(Compare(a, a, 0, 0).close);
  EXPECT_FALSE(Compare(a, Tensor::Int64s({large + 1, INT64_MIN}), 0.5, 10).close);
  const Comparison c = Compare(a, b);
  EXPECT_EQ(c.worst, 1);
  EXPECT_EQ(c.max_abs, 0x1p64);
  EXPECT_THAT(c.text, HasSubstr("-9223372036854775808 and 9223372036854775807"));
}

TEST(CompareTest, SpecialValues) {
  EXPECT_FALSE(Compare(F32({kNaN, 0}), F32({0, 0}), 1, 1).close);
  EXPECT_FALSE(Compare(F32({0, 0}), F32({kNaN, 0}), 1, 1).close);
  EXPECT_FALSE(Compare(F32({kInf, 0}), F32({-kInf, 0}), 1, 1).close);
  EXPECT_FALSE(Compare(F32({1e30, 0}), F32({kInf, 0}), 1, 1).close);
  EXPECT_FALSE(Compare(F32({kInf, 0}), F32({1e30, 0}), 1, 1).close);
  EXPECT_EQ(Compare(F32({1, 0}), F32({0, 0})).max_rel, kInf);
}

TEST(CompareTest, TypesMustAgree) {
  const Tensor a = F32({1, 2});
  const Tensor b = Tensor::FromVector<double>(DType::kFloat64, {2, 1}, {1, 2});
  const Comparison c = Compare(a, b);
  EXPECT_FALSE(c.same_type);
  EXPECT_FALSE(c.close);
  EXPECT_EQ(c.text, "types differ: f32[2,1] and f64[2,1]");
}

TEST(RandomTensorTest, StaysInRangeAndReachesTheEnds) {
  Rng rng(3);
  const Tensor reals = RandomTensor({DType::kFloat32, {1000}}, rng, -1.5, 2);
  const Tensor integers = RandomTensor({DType::kInt32, {1000}}, rng, -1.5, 2);
  const Tensor bools = RandomTensor({DType::kBool, {1000}}, rng, 0, 1);
  int counts[4] = {}, held = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(reals.At(i), -1.5);
    EXPECT_LE(reals.At(i), 2);
    ASSERT_GE(integers.AtInt(i), -1);
    ASSERT_LE(integers.AtInt(i), 2);
    ++counts[integers.AtInt(i) + 1];
    held += static_cast<int>(bools.AtInt(i));
  }
  for (int count : counts) EXPECT_NEAR(count, 250, 60);
  EXPECT_NEAR(held, 500, 80);
}

TEST(RandomTensorTest, IsReproducible) {
  Rng a(9), b(9), c(10);
  const TensorType type{DType::kFloat32, {50}};
  const Tensor x = RandomTensor(type, a, 0, 1);
  EXPECT_TRUE(x.BitEqual(RandomTensor(type, b, 0, 1)));
  EXPECT_FALSE(x.BitEqual(RandomTensor(type, c, 0, 1)));
  EXPECT_FLOAT_EQ(static_cast<float>(x.At(0)), static_cast<float>(static_cast<double>(Rng(9)() >> 11) * 0x1p-53));
}

}  // namespace
}  // namespace rewright
