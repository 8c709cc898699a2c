// Reals in 16 bits as bits, for the memory of a GPU.
#pragma once

#include <bit>
#include <cstdint>

#include "core/ir/float16.h"

namespace rewright::cuda {

inline uint16_t Fp16Bits(float value) { return std::bit_cast<uint16_t>(Float16(value)); }
inline uint16_t Bf16Bits(float value) { return std::bit_cast<uint16_t>(BFloat16(value)); }
inline float FromFp16Bits(uint16_t bits) { return std::bit_cast<Float16>(bits); }
inline float FromBf16Bits(uint16_t bits) { return std::bit_cast<BFloat16>(bits); }

}  // namespace rewright::cuda
