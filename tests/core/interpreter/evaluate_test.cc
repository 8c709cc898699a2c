// The prime field, its stand-ins, and evaluation under the carriers of fingerprints.
#include "core/interpreter/evaluate.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ir/op.h"
#include "core/ir/random_tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

constexpr uint64_t kSeed = 5;

uint64_t RandomElement(Rng& rng) { return rng() % kFieldPrime; }

TEST(EvaluateFieldTest, IsAField) {
  Rng rng(kSeed);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t a = RandomElement(rng), b = RandomElement(rng), c = RandomElement(rng);
    EXPECT_EQ(FieldMultiply(a, FieldAdd(b, c)), FieldAdd(FieldMultiply(a, b), FieldMultiply(a, c)));
    EXPECT_EQ(FieldMultiply(a, FieldMultiply(b, c)), FieldMultiply(FieldMultiply(a, b), c));
    EXPECT_EQ(FieldAdd(FieldSubtract(a, b), b), a);
    EXPECT_EQ(static_cast<unsigned __int128>(a) * b % kFieldPrime, FieldMultiply(a, b));
    if (a != 0) {
      EXPECT_EQ(FieldMultiply(a, FieldInverse(a)), 1u);
    }
  }
  EXPECT_EQ(FieldMultiply(kFieldPrime - 1, kFieldPrime - 1), 1u);
  EXPECT_EQ(FieldInverse(0), 0u);
}

TEST(EvaluateFieldTest, ConstantsAreExact) {
  EXPECT_EQ(FieldFromReal(0), 0u);
  EXPECT_EQ(FieldFromReal(-0.0), 0u);
  EXPECT_EQ(FieldFromReal(-7), kFieldPrime - 7);
  EXPECT_EQ(FieldMultiply(FieldFromReal(0.375), 8), 3u);
  EXPECT_EQ(FieldMultiply(FieldFromReal(1e-5), FieldPower(2, 100)), FieldFromReal(std::ldexp(1e-5, 100)));
  EXPECT_EQ(FieldCentered(FieldFromInteger(-123)), -123);
  EXPECT_EQ(FieldFromInteger(std::numeric_limits<int64_t>::min()), FieldNegate(FieldMultiply(uint64_t{1} << 60, 8)));
}

TEST(EvaluateFieldTest, StandInsKeepTheirLaws) {
  Rng rng(kSeed);
  for (int i = 0; i < 300; ++i) {
    const uint64_t a = FieldFromInteger(static_cast<int64_t>(rng() >> 5) - (int64_t{1} << 58));
    const uint64_t b = FieldFromInteger(static_cast<int64_t>(rng() >> 5) - (int64_t{1} << 58));
    EXPECT_EQ(FieldExp(FieldAdd(a, b)), FieldMultiply(FieldExp(a), FieldExp(b)));
    EXPECT_EQ(FieldExp(FieldNegate(a)), FieldInverse(FieldExp(a)));
    EXPECT_EQ(FieldSqrt(FieldMultiply(a, b)), FieldMultiply(FieldSqrt(a), FieldSqrt(b)));
    const uint64_t square = FieldMultiply(FieldSqrt(a), FieldSqrt(a));
    EXPECT_TRUE(square == a || square == FieldNegate(a));
    EXPECT_EQ(FieldErf(FieldNegate(a)), FieldNegate(FieldErf(a)));
    EXPECT_EQ(FieldAdd(FieldSigmoid(a), FieldSigmoid(FieldNegate(a))), 1u);
    EXPECT_EQ(FieldTanh(FieldNegate(a)), FieldNegate(FieldTanh(a)));
    uint64_t cube = 0, root = 0;
    EXPECT_TRUE(FieldPow(a, 3, &cube));
    EXPECT_EQ(cube, FieldMultiply(a, FieldMultiply(a, a)));
    EXPECT_TRUE(FieldPow(a, FieldFromReal(0.5), &root));
    EXPECT_EQ(root, FieldSqrt(a));
  }
  EXPECT_EQ(FieldExp(0), 1u);
  uint64_t unused = 0;
  EXPECT_FALSE(FieldPow(0, FieldNegate(1), &unused));
  EXPECT_EQ(FieldFloor(FieldNegate(5)), FieldNegate(5));
}

// ---------------------------------------------------------------- applications

absl::StatusOr<std::vector<Tensor>> Evaluate(const std::string& name, const std::vector<Tensor>& inputs,
                                             const Attrs& attrs, Carrier carrier) {
  std::vector<TensorType> types;
  std::vector<Tensor> stored;
  for (const Tensor& input : inputs) {
    types.push_back(input.type());
    auto tensor = ToCarrier(input, carrier);
    if (!tensor.ok()) return tensor.status();
    stored.push_back(*tensor);
  }
  MeaningCache cache;
  auto app = Apply(*FindOp(name), types, attrs, cache);
  if (!app.ok()) return app.status();
  return Interpret(*app->meaning, BindingsOf(*app->meaning, types, app->attrs), app->outputs, types, stored,
                   {.carrier = carrier});
}

Tensor F32(Shape shape, const std::vector<double>& values) {
  return Tensor::FromVector(DType::kFloat32, std::move(shape), values);
}

std::vector<int64_t> Values(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(tensor.AtInt(i));
  return values;
}

using ::testing::ElementsAre;

TEST(EvaluateTest, ExactIntegers) {
  const auto max = Evaluate("max", {F32({3}, {-5, 2, 7}), F32({3}, {1, 2, -9})}, {}, Carrier::kExactInteger);
  ASSERT_TRUE(max.ok()) << max.status();
  EXPECT_THAT(Values((*max)[0]), ElementsAre(1, 2, 7));
  const auto div = Evaluate("div", {F32({2}, {-6, 35}), F32({2}, {3, -7})}, {}, Carrier::kExactInteger);
  ASSERT_TRUE(div.ok()) << div.status();
  EXPECT_THAT(Values((*div)[0]), ElementsAre(-2, -5));
}

TEST(EvaluateTest, WhatDoesNotExistIsOutOfRange) {
  const Tensor one = F32({1}, {1}), two = F32({1}, {2}), zero = F32({1}, {0});
  EXPECT_TRUE(absl::IsOutOfRange(Evaluate("div", {one, two}, {}, Carrier::kExactInteger).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Evaluate("div", {one, zero}, {}, Carrier::kExactInteger).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Evaluate("div", {one, zero}, {}, Carrier::kPrimeField).status()));
  EXPECT_TRUE(absl::IsOutOfRange(Evaluate("gelu", {one}, {}, Carrier::kExactInteger).status()));  // 0.5
  EXPECT_TRUE(absl::IsOutOfRange(Evaluate("neg", {F32({1}, {0.5})}, {}, Carrier::kExactInteger).status()));
}

TEST(EvaluateTest, FieldDividesAndOrders) {
  const auto third = Evaluate("div", {F32({1}, {1}), F32({1}, {3})}, {}, Carrier::kPrimeField);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(FieldMultiply((*third)[0].as<uint64_t>()[0], 3), 1u);
  const auto relu = Evaluate("relu", {F32({3}, {-2, 0, 5})}, {}, Carrier::kPrimeField);
  ASSERT_TRUE(relu.ok()) << relu.status();
  EXPECT_THAT(Values((*relu)[0]), ElementsAre(0, 0, 5));
  // An empty maximum never shows: the smallest element is neutral.
  const auto pool = Evaluate("max_pool2d", {F32({1, 1, 2, 2}, {-4, -3, -2, -1})},
                             {{"kernel", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}},
                             Carrier::kPrimeField);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(FieldCentered((*pool)[0].as<uint64_t>()[0]), -4);
  EXPECT_EQ(FieldCentered((*pool)[0].as<uint64_t>()[4]), -1);
}

// softmax(x) = exp(x) / sum exp(x), shift or no shift: the law of exp carries over to the field.
TEST(EvaluateTest, SoftmaxIsItsOwnUnshiftedForm) {
  const Tensor x = F32({2, 3}, {1, 4, -2, 0, 3, 3});
  const auto softmax = Evaluate("softmax", {x}, {}, Carrier::kPrimeField);
  ASSERT_TRUE(softmax.ok()) << softmax.status();
  for (int64_t row = 0; row < 2; ++row) {
    uint64_t sum = 0;
    for (int64_t j = 0; j < 3; ++j) sum = FieldAdd(sum, FieldExp(FieldFromReal(x.At(row * 3 + j))));
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ((*softmax)[0].as<uint64_t>()[row * 3 + j],
                FieldMultiply(FieldExp(FieldFromReal(x.At(row * 3 + j))), FieldInverse(sum)));
    }
  }
}

// Integer and boolean tensors are the same under every carrier.
TEST(EvaluateTest, IndicesStayIntegers) {
  const Tensor x = F32({4}, {10, -20, 30, -40});
  const Tensor at = Tensor::Int64s({3, 0, -1});
  for (Carrier carrier : {Carrier::kExactInteger, Carrier::kPrimeField}) {
    const auto picked = Evaluate("gather", {x, at}, {}, carrier);
    ASSERT_TRUE(picked.ok()) << picked.status();
    EXPECT_TRUE((*picked)[0].BitEqual(*ToCarrier(F32({3}, {-40, 10, -40}), carrier)));
  }
}

TEST(EvaluateTest, StoredTypes) {
  EXPECT_EQ(StoredDType(Carrier::kNative, DType::kFloat32), DType::kFloat32);
  EXPECT_EQ(StoredDType(Carrier::kFloat64, DType::kFloat32), DType::kFloat64);
  EXPECT_EQ(StoredDType(Carrier::kExactInteger, DType::kFloat64), DType::kInt64);
  EXPECT_EQ(StoredDType(Carrier::kPrimeField, DType::kFloat32), DType::kInt64);
  EXPECT_EQ(StoredDType(Carrier::kPrimeField, DType::kBool), DType::kBool);
  EXPECT_EQ(StoredDType(Carrier::kPrimeField, DType::kInt32), DType::kInt32);
}

}  // namespace
}  // namespace rewright
