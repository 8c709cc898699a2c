#include "core/ir/functions.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/ir/function_values.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Fn Named(const char* name) {
  const FnInfo* info = FindFn(name);
  EXPECT_NE(info, nullptr) << name;
  return info->fn;
}

TEST(FunctionsTest, TheTableIsInTheOrderOfFn) {
  std::set<std::string> names;
  for (int i = 0; i < kNumFns; ++i) {
    const FnInfo& info = AllFns()[i];
    EXPECT_EQ(static_cast<int>(info.fn), i) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(FindFn(info.name), &info);
  }
  EXPECT_EQ(AllFns().size(), static_cast<size_t>(kNumFns));
  EXPECT_EQ(FindFn("no such function"), nullptr);
  EXPECT_STREQ(FnName(Fn::kAdd), "+");
  EXPECT_STREQ(FnName(Fn::kExp), "exp");
  EXPECT_TRUE(FnIsInfix(Fn::kLess));
  EXPECT_FALSE(FnIsInfix(Fn::kMax));
}

struct Spot {
  const char* name;
  double a, b, value;
};

// Values from tables, not from the C library.
TEST(FunctionsTest, ValuesOfReals) {
  const Spot spots[] = {
      {"add", 2, 3, 5},
      {"sub", 2, 3, -1},
      {"mul", 2, 3, 6},
      {"div", 3, 2, 1.5},
      {"div", 1, 0, kInfinity},
      {"neg", 2, 0, -2},
      {"max", 2, 3, 3},
      {"max", kNaN, 3, kNaN},
      {"max", 3, kNaN, kNaN},
      {"min", 2, 3, 2},
      {"min", kNaN, 3, kNaN},
      {"min", 3, kNaN, kNaN},
      {"pow", 2, 10, 1024},
      {"pow", 2, -1, 0.5},
      {"exp", 1, 0, 2.718281828459045},
      {"log", 10, 0, 2.302585092994046},
      {"sqrt", 2, 0, 1.4142135623730951},
      {"erf", 0.5, 0, 0.5204998778130465},
      {"tanh", 0.5, 0, 0.46211715726000975},
      {"sigmoid", 1, 0, 0.7310585786300049},
      {"softplus", 1, 0, 1.3132616875182228},
      {"softplus", -30, 0, 9.357622968839737e-14},
      {"softplus", 1000, 0, 1000},
      {"softplus", -kInfinity, 0, 0},
      {"softplus", kNaN, 0, kNaN},
      {"abs", -2, 0, 2},
      {"sign", -0.25, 0, -1},
      {"sign", 3, 0, 1},
      {"sign", 0, 0, 0},
      {"sign", kNaN, 0, kNaN},
      {"floor", -1.5, 0, -2},
      {"ceil", -1.5, 0, -1},
      {"round", 2.5, 0, 2},
      {"round", 3.5, 0, 4},
      {"round", -2.5, 0, -2},
      {"round", 2.4999, 0, 2},
      {"sin", 1, 0, 0.8414709848078965},
      {"cos", 1, 0, 0.5403023058681398},
      {"tan", 1, 0, 1.5574077246549023},
      {"asin", 0.5, 0, 0.5235987755982989},
      {"acos", 0.5, 0, 1.0471975511965979},
      {"atan", 1, 0, 0.7853981633974483},
      {"sinh", 1, 0, 1.1752011936438014},
      {"cosh", 1, 0, 1.5430806348152437},
      {"asinh", 1, 0, 0.881373587019543},
      {"acosh", 2, 0, 1.3169578969248166},
      {"less", 2, 3, 1},
      {"less", 3, 3, 0},
      {"less_equal", 3, 3, 1},
      {"equal", 3, 3, 1},
      {"equal", kNaN, kNaN, 0},
      {"and", 1, 0, 0},
      {"or", 1, 0, 1},
      {"not", 1, 0, 0},
  };
  for (const Spot& spot : spots) {
    const double value = EvaluateReal(Named(spot.name), spot.a, spot.b);
    if (std::isnan(spot.value)) {
      EXPECT_TRUE(std::isnan(value)) << spot.name;
    } else {
      EXPECT_DOUBLE_EQ(value, spot.value) << spot.name << " of " << spot.a << ", " << spot.b;
    }
  }
  EXPECT_TRUE(std::signbit(EvaluateReal(Fn::kSign, -0.0, 0)));
}

TEST(FunctionsTest, IntegersWrapAroundAndSomeHaveNoValue) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min(), kMax = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(Evaluate(Fn::kAdd, kMax, 1).value, kMin);
  EXPECT_EQ(Evaluate(Fn::kMul, kMax, 2).value, -2);
  EXPECT_EQ(Evaluate(Fn::kNeg, kMin, 0).value, kMin);
  EXPECT_EQ(Evaluate(Fn::kAbs, kMin, 0).value, kMin);
  EXPECT_EQ(Evaluate(Fn::kDiv, kMin, -1).value, kMin);
  EXPECT_EQ(Evaluate(Fn::kDiv, -7, 2).value, -3) << "toward zero";
  EXPECT_FALSE(Evaluate(Fn::kDiv, 1, 0).exists);
  EXPECT_EQ(Evaluate(Fn::kPow, 3, 4).value, 81);
  EXPECT_EQ(Evaluate(Fn::kPow, -1, -3).value, -1);
  EXPECT_EQ(Evaluate(Fn::kPow, 2, -1).value, 0);
  EXPECT_FALSE(Evaluate(Fn::kPow, 0, -1).exists);
  EXPECT_EQ(Evaluate(Fn::kSign, int64_t{-5}, int64_t{0}).value, -1);
  EXPECT_FALSE(Evaluate(Fn::kExp, int64_t{1}, int64_t{0}).exists) << "no function of integers";
  EXPECT_FALSE(Evaluate(Fn::kSub, uint8_t{1}, uint8_t{1}).exists) << "no function of truth values";
  EXPECT_EQ(Evaluate(Fn::kAdd, uint8_t{1}, uint8_t{1}).value, 1) << "sums of truth values are `or`";
}

// Checks the traits that the prover and the generator take from the table.
TEST(FunctionsTest, TraitsHold) {
  const double points[] = {0, -0.0, 0.3, 0.5, 0.9, 1, 1.5, 2, 2.5, 7, 1e9, kInfinity};
  for (const FnInfo& info : AllFns()) {
    for (double a : points) {
      const double value = EvaluateReal(info.fn, a, 0), turned = EvaluateReal(info.fn, -a, 0);
      if (std::isnan(value) || std::isnan(turned)) continue;
      if (FnHas(info.fn, FnTrait::kOdd)) {
        EXPECT_EQ(turned, -value) << info.name << " at " << a;
      }
      if (FnHas(info.fn, FnTrait::kEven)) {
        EXPECT_EQ(turned, value) << info.name << " at " << a;
      }
      if (FnHas(info.fn, FnTrait::kPositive) && std::isfinite(a) && a < 100) {
        EXPECT_GT(value, 0) << info.name << " at " << a;
        EXPECT_GT(turned, 0) << info.name << " at " << -a;
      }
      for (double b : points) {
        if (FnHas(info.fn, FnTrait::kCommutes) && std::isfinite(a) && std::isfinite(b)) {
          EXPECT_EQ(EvaluateReal(info.fn, a, b), EvaluateReal(info.fn, b, a)) << info.name << " at " << a << ", " << b;
        }
      }
    }
  }
}

// The published vectors of Philox4x32-10 (Random123, kat_vectors): counter, key, words.
TEST(FunctionsTest, RandomBitsAreThoseOfPhilox) {
  struct Vector {
    std::array<unsigned, 4> counter;
    unsigned long long key;
    std::array<unsigned, 4> words;
  };
  const Vector vectors[] = {
      {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       0xffffffffffffffff,
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       0x299f31d0a4093822,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Vector& vector : vectors) {
    std::array<unsigned, 4> words = vector.counter;
    Philox(vector.key, words.data());
    EXPECT_EQ(words, vector.words);
  }
  // Word by word, block after block; of i32 the same bits.
  for (int64_t place : {0, 1, 2, 3, 6, 0x7fffffff}) {
    std::array<unsigned, 4> words = {static_cast<unsigned>(place / 4), 0, 0, 0};
    Philox(99, words.data());
    const Partial<int64_t> wide = Evaluate<int64_t>(Fn::kRandomBits, 99, place);
    EXPECT_TRUE(wide.exists);
    EXPECT_EQ(wide.value, static_cast<int64_t>(words[place % 4]));
    EXPECT_EQ(Evaluate<int32_t>(Fn::kRandomBits, 99, static_cast<int32_t>(place)).value,
              static_cast<int32_t>(words[place % 4]));
  }
  EXPECT_NE(Evaluate<int64_t>(Fn::kRandomBits, 0, int64_t{1} << 34).value,
            Evaluate<int64_t>(Fn::kRandomBits, 0, 0).value);
  EXPECT_FALSE(Evaluate<double>(Fn::kRandomBits, 1, 2).exists);
}

}  // namespace
}  // namespace rewright
