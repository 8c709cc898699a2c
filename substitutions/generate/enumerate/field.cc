#include "substitutions/generate/enumerate/field.h"

#include <cmath>
#include <cstdlib>
#include <initializer_list>

#include "core/base/integer.h"

namespace rewright {
namespace {

// Keys of the hashes that stand in for functions.
enum HashKey : uint64_t { kNaNKey = 0x9e01, kPowKey };

constexpr int64_t kSmall = int64_t{1} << 31;

uint64_t HashToField(uint64_t key, uint64_t a, uint64_t b = 0) { return FieldReduce(KeyedHash(key, a, b)); }

}  // namespace

uint64_t FieldPower(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = FieldMultiply(result, base);
    base = FieldMultiply(base, base);
  }
  return result;
}

uint64_t FieldInverse(uint64_t a) { return FieldPower(a, kFieldPrime - 2); }

uint64_t FieldFromInteger(int64_t value) {
  const int64_t rest = value % static_cast<int64_t>(kFieldPrime);
  return rest < 0 ? static_cast<uint64_t>(rest + static_cast<int64_t>(kFieldPrime)) : static_cast<uint64_t>(rest);
}

uint64_t FieldFromReal(double value) {
  if (std::isnan(value)) return HashToField(kNaNKey, 0);
  if (std::isinf(value)) return value > 0 ? kFieldPrime / 2 : kFieldPrime / 2 + 1;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const int64_t mantissa = static_cast<int64_t>(std::ldexp(fraction, 53));
  const int shift = ((exponent - 53) % 61 + 61) % 61;
  return FieldMultiply(FieldFromInteger(mantissa), uint64_t{1} << shift);
}

uint64_t KeyedHash(uint64_t key, uint64_t a, uint64_t b) {
  uint64_t hash = key * 0x9e3779b97f4a7c15u;
  return MixBits(MixBits(hash + a) + b);
}

uint64_t FieldExp(uint64_t x) {
  const int64_t centered = FieldCentered(x);
  const uint64_t power = FieldPower(3, static_cast<uint64_t>(std::llabs(centered)));
  return centered < 0 ? FieldInverse(power) : power;
}

uint64_t FieldSqrt(uint64_t x) { return FieldPower(x, (kFieldPrime + 1) / 4); }

uint64_t FieldSigmoid(uint64_t x) { return FieldInverse(FieldAdd(1, FieldExp(FieldNegate(x)))); }

uint64_t FieldTanh(uint64_t x) {
  const uint64_t e = FieldExp(FieldAdd(x, x));
  return FieldMultiply(FieldSubtract(e, 1), FieldInverse(FieldAdd(e, 1)));
}

namespace {
// Exponents for which a power is computed.
bool IsSmallPower(uint64_t exponent) { return std::llabs(FieldCentered(exponent)) <= 64; }
}  // namespace

bool FieldPowExists(uint64_t x, uint64_t exponent) {
  return x != 0 || !IsSmallPower(exponent) || FieldCentered(exponent) >= 0;
}

uint64_t FieldPow(uint64_t x, uint64_t exponent) {
  static const uint64_t half = FieldFromReal(0.5);
  if (IsSmallPower(exponent)) {
    const int64_t centered = FieldCentered(exponent);
    const uint64_t power = FieldPower(x, static_cast<uint64_t>(std::llabs(centered)));
    return centered < 0 ? FieldInverse(power) : power;
  }
  return exponent == half ? FieldSqrt(x) : HashToField(kPowKey, x, exponent);
}

uint64_t FieldHash(uint64_t key, uint64_t x) { return HashToField(key, x); }

uint64_t FieldOdd(uint64_t key, uint64_t x) {
  const int64_t centered = FieldCentered(x);
  if (centered == 0) return 0;
  const uint64_t hash = HashToField(key, static_cast<uint64_t>(std::llabs(centered)));
  return centered < 0 ? FieldNegate(hash) : hash;
}

uint64_t FieldEven(uint64_t key, uint64_t x) { return HashToField(key, FieldAbs(x)); }

uint64_t FieldStep(uint64_t key, uint64_t x) { return std::llabs(FieldCentered(x)) < kSmall ? x : HashToField(key, x); }

}  // namespace rewright
