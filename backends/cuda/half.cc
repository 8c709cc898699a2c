#include "backends/cuda/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rewright::cuda {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

uint16_t Bf16Bits(float value) {
  const uint32_t bits = BitsOf(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 64u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float FromBf16Bits(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t Fp16Bits(float value) {
  const uint32_t sign = BitsOf(value) >> 31 << 15;
  const float size = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size == 0) return static_cast<uint16_t>(sign);
  if (size >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);
  int exponent = 0;
  std::frexp(size, &exponent);
  // The unit of the last place is 2^step. Its multiples count on through the encodings, exponents included.
  const int step = std::max(exponent - 11, -24);
  const uint32_t units = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -step)));
  return static_cast<uint16_t>(sign | (static_cast<uint32_t>(step + 24) * 1024u + units));
}

float FromFp16Bits(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float size = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                     : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                     : std::ldexp(static_cast<float>(mantissa | 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}

}  // namespace rewright::cuda
