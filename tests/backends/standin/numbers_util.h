// Numbers as the libraries store them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backends/cuda/codegen/half.h"

namespace rewright::standin {

enum class Type : uint8_t { kFp32, kFp16, kBf16 };
inline size_t BytesOf(Type type) { return type == Type::kFp32 ? 4 : 2; }

inline double Load(const void* data, int64_t i, Type type) {
  if (type == Type::kFp32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  return type == Type::kFp16 ? cuda::FromFp16Bits(bits) : cuda::FromBf16Bits(bits);
}
inline void Store(void* data, int64_t i, Type type, double value) {
  const float real = static_cast<float>(value);
  if (type == Type::kFp32) {
    static_cast<float*>(data)[i] = real;
  } else {
    static_cast<uint16_t*>(data)[i] = type == Type::kFp16 ? cuda::Fp16Bits(real) : cuda::Bf16Bits(real);
  }
}
// The number after it was stored in this type.
inline double Rounded(Type type, double value) {
  uint32_t bits = 0;
  Store(&bits, 0, type, value);
  return Load(&bits, 0, type);
}

inline double GeluErf(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }
inline double GeluTanh(double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

}  // namespace rewright::standin
