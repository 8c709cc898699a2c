// Reals in 16 bits as bits, for the memory of a GPU.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/tensor/float16.h"

namespace rewright::cuda {

inline uint16_t Fp16Bits(float value) { return std::bit_cast<uint16_t>(Float16(value)); }
inline uint16_t Bf16Bits(float value) { return std::bit_cast<uint16_t>(BFloat16(value)); }
// Elements as they are stored: to the nearest, ties to even.
inline std::vector<char> Halves(const std::vector<float>& values, bool fp16) {
  std::vector<char> bytes(2 * values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = fp16 ? Fp16Bits(values[i]) : Bf16Bits(values[i]);
    std::memcpy(&bytes[2 * i], &bits, 2);
  }
  return bytes;
}
inline float FromFp16Bits(uint16_t bits) { return std::bit_cast<Float16>(bits); }
inline float FromBf16Bits(uint16_t bits) { return std::bit_cast<BFloat16>(bits); }

}  // namespace rewright::cuda
