// Tests the prime field and its stand-ins.
#include "substitutions/generate/enumerate/field.h"

#include <cmath>
#include <limits>

#include "core/ir/op.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

constexpr uint64_t kSeed = 5;

uint64_t RandomElement(Rng& rng) { return rng() % kFieldPrime; }

TEST(FieldTest, IsAField) {
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

TEST(FieldTest, ConstantsAreExact) {
  EXPECT_EQ(FieldFromReal(0), 0u);
  EXPECT_EQ(FieldFromReal(-0.0), 0u);
  EXPECT_EQ(FieldFromReal(-7), kFieldPrime - 7);
  EXPECT_EQ(FieldMultiply(FieldFromReal(0.375), 8), 3u);
  EXPECT_EQ(FieldMultiply(FieldFromReal(1e-5), FieldPower(2, 100)), FieldFromReal(std::ldexp(1e-5, 100)));
  EXPECT_EQ(FieldCentered(FieldFromInteger(-123)), -123);
  EXPECT_EQ(FieldFromInteger(std::numeric_limits<int64_t>::min()), FieldNegate(FieldMultiply(uint64_t{1} << 60, 8)));
}

TEST(FieldTest, StandInsKeepTheirLaws) {
  Rng rng(kSeed);
  for (int i = 0; i < 300; ++i) {
    const uint64_t a = FieldFromInteger(static_cast<int64_t>(rng() >> 5) - (int64_t{1} << 58));
    const uint64_t b = FieldFromInteger(static_cast<int64_t>(rng() >> 5) - (int64_t{1} << 58));
    EXPECT_EQ(FieldExp(FieldAdd(a, b)), FieldMultiply(FieldExp(a), FieldExp(b)));
    EXPECT_EQ(FieldExp(FieldNegate(a)), FieldInverse(FieldExp(a)));
    EXPECT_EQ(FieldSqrt(FieldMultiply(a, b)), FieldMultiply(FieldSqrt(a), FieldSqrt(b)));
    const uint64_t square = FieldMultiply(FieldSqrt(a), FieldSqrt(a));
    EXPECT_TRUE(square == a || square == FieldNegate(a));
    EXPECT_EQ(FieldOdd(7, FieldNegate(a)), FieldNegate(FieldOdd(7, a)));
    EXPECT_NE(FieldOdd(7, a), FieldOdd(8, a));
    EXPECT_NE(FieldHash(7, FieldNegate(a)), FieldNegate(FieldHash(7, a)));
    EXPECT_EQ(FieldAdd(FieldSigmoid(a), FieldSigmoid(FieldNegate(a))), 1u);
    EXPECT_EQ(FieldTanh(FieldNegate(a)), FieldNegate(FieldTanh(a)));
    EXPECT_EQ(FieldPow(a, 3), FieldMultiply(a, FieldMultiply(a, a)));
    EXPECT_EQ(FieldPow(a, FieldNegate(1)), FieldInverse(a));
    EXPECT_EQ(FieldPow(a, FieldFromReal(0.5)), FieldSqrt(a));
    EXPECT_TRUE(FieldPowExists(a, FieldNegate(1)));
  }
  EXPECT_EQ(FieldExp(0), 1u);
  EXPECT_FALSE(FieldPowExists(0, FieldNegate(1)));
  EXPECT_TRUE(FieldPowExists(0, 2));
  EXPECT_EQ(FieldStep(7, FieldNegate(5)), FieldNegate(5));
  EXPECT_TRUE(FieldLess(FieldNegate(5), 3));
  EXPECT_EQ(FieldAbs(FieldNegate(5)), 5u);
}

}  // namespace
}  // namespace rewright
