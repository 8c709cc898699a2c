// Floating-point numbers of 16 bits: stored only, and computed as floats.
//
// f16 is IEEE's binary16 (5 bits of exponent, 10 of fraction), bf16 the upper half of a float (8 and 7). Conversions
// round to the nearest, halves to the even one. Too large numbers become infinities, NaN stays NaN, and subnormal
// numbers are kept.
#pragma once

#include <bit>
#include <cstdint>

namespace rewright {

class Float16 {
 public:
  Float16() = default;
  explicit Float16(float number) : bits_(BitsOf(number)) {}
  operator float() const {
    constexpr uint32_t kExponent = 0x7c00u << 13;
    uint32_t bits = (bits_ & 0x7fffu) << 13;
    const uint32_t exponent = bits & kExponent;
    bits += (127 - 15) << 23;
    if (exponent == kExponent) {  // infinity, NaN
      bits += (128 - 16) << 23;
    } else if (exponent == 0) {  // zero, subnormal
      bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits + (1u << 23)) - std::bit_cast<float>(113u << 23));
    }
    return std::bit_cast<float>(bits | (bits_ & 0x8000u) << 16);
  }

 private:
  static uint16_t BitsOf(float number) {
    const uint32_t sign = std::bit_cast<uint32_t>(number) & 0x80000000u;
    uint32_t bits = std::bit_cast<uint32_t>(number) ^ sign;
    if (bits >= 0x47800000u) {  // 2^16 and above
      bits = bits > 0x7f800000u ? 0x7e00u | (bits >> 13 & 0x3ffu) : 0x7c00u;
    } else if (bits < 0x38800000u) {  // below 2^-14: the addition shifts and rounds
      constexpr uint32_t kShift = ((127 - 15) + (23 - 10) + 1) << 23;
      bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kShift)) - kShift;
    } else {
      bits = (bits - ((127u - 15) << 23) + 0xfffu + (bits >> 13 & 1)) >> 13;
    }
    return static_cast<uint16_t>(bits | sign >> 16);
  }

  uint16_t bits_;
};

class BFloat16 {
 public:
  BFloat16() = default;
  explicit BFloat16(float number) : bits_(BitsOf(number)) {}
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16); }

 private:
  static uint16_t BitsOf(float number) {
    const uint32_t bits = std::bit_cast<uint32_t>(number);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // NaN
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }

  uint16_t bits_;
};

}  // namespace rewright
