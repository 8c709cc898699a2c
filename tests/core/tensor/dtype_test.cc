#include "core/tensor/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

TEST(DTypeTest, NamesReadBack) {
  std::set<std::string> names;
  for (DType type : kAllDTypes) {
    DType read = DType::kBool;
    ASSERT_TRUE(ParseDType(DTypeName(type), &read)) << DTypeName(type);
    EXPECT_EQ(read, type);
    names.insert(DTypeName(type));
  }
  EXPECT_EQ(names.size(), std::size(kAllDTypes));
  DType read;
  EXPECT_FALSE(ParseDType("f8", &read));
}

TEST(DTypeTest, Kinds) {
  EXPECT_EQ(DTypeSize(DType::kBFloat16), 2u);
  EXPECT_EQ(DTypeSize(DType::kUInt8), 1u);
  EXPECT_EQ(DTypeSize(DType::kBool), 1u);
  EXPECT_TRUE(IsFloating(DType::kFloat16) && IsHalf(DType::kFloat16) && !IsInteger(DType::kFloat16));
  EXPECT_TRUE(IsInteger(DType::kUInt8) && !IsFloating(DType::kUInt8) && IsUnsigned(DType::kUInt8));
  EXPECT_FALSE(IsInteger(DType::kBool) || IsUnsigned(DType::kBool) || IsUnsigned(DType::kInt8));
  EXPECT_EQ(ComputedDType(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(ComputedDType(DType::kUInt32), DType::kInt64);
  EXPECT_FALSE(IsNarrow(DType::kUInt64) || IsNarrow(DType::kFloat64));
}

// Returns the two numbers of the type around a finite one, by a search of all of them.
template <typename Half>
std::vector<double> AllFinite() {
  std::vector<double> numbers;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto number = static_cast<float>(std::bit_cast<Half>(static_cast<uint16_t>(bits)));
    if (std::isfinite(number)) numbers.push_back(static_cast<double>(number));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

template <typename Half>
void RoundsToNearestEven(DType type) {
  const std::vector<double> numbers = AllFinite<Half>();
  EXPECT_EQ(numbers.back(), LargestOf(type));
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    const double low = numbers[i], high = numbers[i + 1];
    if (low == high) continue;  // zeros
    const double middle = low + (high - low) / 2;
    // The even one of the two has its last bit clear.
    const auto last_bit = [](double x) { return std::bit_cast<uint16_t>(Half(static_cast<float>(x))) & 1; };
    const double even = last_bit(low) == 0 ? low : high;
    for (const auto& [given, expected] :
         {std::pair(low, low), std::pair(middle, even),
          std::pair(static_cast<double>(std::nextafter(static_cast<float>(middle), -HUGE_VALF)), low),
          std::pair(static_cast<double>(std::nextafter(static_cast<float>(middle), HUGE_VALF)), high)}) {
      ASSERT_EQ(static_cast<double>(static_cast<float>(Half(static_cast<float>(given)))), expected) << given;
      ASSERT_EQ(NearestOf(type, given), expected) << given;
    }
  }
}

TEST(Float16Test, EveryNumberAndEveryHalf) { RoundsToNearestEven<Float16>(DType::kFloat16); }
TEST(BFloat16Test, EveryNumberAndEveryHalf) { RoundsToNearestEven<BFloat16>(DType::kBFloat16); }

template <typename Half>
void EveryBitPatternStays() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = std::bit_cast<Half>(static_cast<uint16_t>(bits));
    const float number = half;
    const auto back = std::bit_cast<uint16_t>(Half(number));
    if (std::isnan(number)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(std::bit_cast<Half>(back)))) << bits;
    } else {
      EXPECT_EQ(back, bits);
    }
  }
}

TEST(Float16Test, EveryBitPatternStays) { EveryBitPatternStays<Float16>(); }
TEST(BFloat16Test, EveryBitPatternStays) { EveryBitPatternStays<BFloat16>(); }

TEST(Float16Test, Ends) {
  EXPECT_EQ(static_cast<float>(Float16(65519.0f)), 65504.0f);
  EXPECT_EQ(static_cast<float>(Float16(65520.0f)), HUGE_VALF);
  EXPECT_EQ(static_cast<float>(Float16(-1e30f)), -HUGE_VALF);
  EXPECT_EQ(static_cast<float>(Float16(0x1p-24f)), 0x1p-24f);  // the smallest subnormal number
  EXPECT_EQ(static_cast<float>(Float16(0x1p-25f)), 0.0f);      // half of it: to the even one
  EXPECT_TRUE(std::signbit(static_cast<float>(Float16(-0.0f))));
  EXPECT_EQ(static_cast<float>(BFloat16(3.4e38f)), HUGE_VALF);
  EXPECT_EQ(static_cast<float>(BFloat16(0x1p-133f)), 0x1p-133f);
}

// A double is rounded once, not by way of a float.
TEST(DTypeTest, NearestIsRoundedOnce) {
  const double above = 1 + 0x1p-11 + 0x1p-40;  // above the middle of two numbers of f16, to which a float rounds it
  EXPECT_EQ(NearestOf(DType::kFloat16, above), 1 + 0x1p-10);
  EXPECT_EQ(NearestOf(DType::kFloat16, 1 + 0x1p-11), 1);
  EXPECT_EQ(NearestOf(DType::kFloat32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(NearestOf(DType::kInt32, -2.5), -2);
  EXPECT_EQ(RoundingOf(DType::kBFloat16), 0x1p-8);
  EXPECT_EQ(SmallestNormalOf(DType::kFloat16), 0x1p-14);
}

TEST(DTypeTest, ElementsOfEveryTypeAreStoredAndRead) {
  for (DType type : kAllDTypes) {
    Tensor tensor({type, {3}});
    tensor.Set(0, 1);
    tensor.SetInt(1, 1);
    EXPECT_EQ(tensor.At(0), 1) << DTypeName(type);
    EXPECT_EQ(tensor.At(1), 1);
    EXPECT_EQ(tensor.AtInt(1), 1);
    EXPECT_EQ(tensor.At(2), 0);
    if (type == DType::kBool) continue;
    tensor.Set(2, 100);
    EXPECT_EQ(tensor.AtInt(2), 100);
    if (!IsUnsigned(type)) {
      tensor.SetInt(2, -100);
      EXPECT_EQ(tensor.At(2), -100);
    }
  }
  Tensor bytes({DType::kUInt8, {1}});
  bytes.SetInt(0, 300);
  EXPECT_EQ(bytes.AtInt(0), 44);
  Tensor large({DType::kUInt64, {1}});
  large.SetInt(0, -1);
  EXPECT_EQ(large.At(0), 0x1p64);
}

// The processor's instructions convert as Float16 does, for every bit pattern that rounding distinguishes.
TEST(ConvertTest, ManyAtATimeAreWhatOneIs) {
  std::mt19937_64 rng(1);
  std::vector<float> floats;
  for (uint32_t i = 0; i < 100003; ++i) {
    const uint32_t low = rng() % 4 == 0 ? (rng() % 3 + 0x0fff) : static_cast<uint32_t>(rng()) & 0x1fff;
    floats.push_back(std::bit_cast<float>((static_cast<uint32_t>(rng()) & ~0x1fffu) | low));
  }
  const auto n = static_cast<int64_t>(floats.size());
  std::vector<Float16> halves(floats.size());
  ConvertElements(DType::kFloat32, floats.data(), DType::kFloat16, halves.data(), n);
  std::vector<float> back(floats.size());
  ConvertElements(DType::kFloat16, halves.data(), DType::kFloat32, back.data(), n);
  for (size_t i = 0; i < floats.size(); ++i) {
    const Float16 one(floats[i]);
    ASSERT_EQ(std::bit_cast<uint16_t>(halves[i]), std::bit_cast<uint16_t>(one)) << floats[i];
    const float number = one;
    ASSERT_TRUE(std::isnan(number) ? std::isnan(back[i]) : back[i] == number) << floats[i];
  }
}

TEST(ConvertTest, FloatsAndIntegers) {
  const float floats[] = {1.0f, 70000.0f, 1 + 0x1p-9f, -0.0f};
  uint16_t halves[4];
  ConvertElements(DType::kFloat32, floats, DType::kFloat16, halves, 4);
  double doubles[4];
  ConvertElements(DType::kFloat16, halves, DType::kFloat64, doubles, 4);
  EXPECT_EQ(doubles[0], 1);
  EXPECT_EQ(doubles[1], HUGE_VAL);
  EXPECT_EQ(doubles[2], 1 + 0x1p-9);
  EXPECT_TRUE(std::signbit(doubles[3]));
  const int32_t integers[] = {-1, 300, 127, 128};
  int8_t bytes[4];
  ConvertElements(DType::kInt32, integers, DType::kInt8, bytes, 4);
  EXPECT_EQ(bytes[0], -1);
  EXPECT_EQ(bytes[1], 44);
  EXPECT_EQ(bytes[2], 127);
  EXPECT_EQ(bytes[3], -128);
}

}  // namespace
}  // namespace rewright
