// Reals in 16 bits, on this side of the border.
#pragma once

#include <cstdint>

namespace rewright::cuda {

// The nearest number of IEEE half precision or bfloat16, ties to even; what is too large is infinite, a NaN stays one.
uint16_t Fp16Bits(float value);
uint16_t Bf16Bits(float value);
float FromFp16Bits(uint16_t bits);
float FromBf16Bits(uint16_t bits);

}  // namespace rewright::cuda
