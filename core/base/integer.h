// Integer arithmetic that C++ lacks: division rounded down, and operations that report what does not fit 64 bits.
#pragma once

#include <cstdint>

namespace rewright {

// floor(a / b) and a - b * floor(a / b), for b > 0.
constexpr int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
constexpr int64_t FloorRemainder(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

// |a|, which the least number has too.
constexpr uint64_t AbsoluteValue(int64_t a) { return a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a); }

// False, with `out` unspecified, where the result does not fit or the divisor is not positive.
inline bool CheckedAdd(int64_t a, int64_t b, int64_t* out) { return !__builtin_add_overflow(a, b, out); }
inline bool CheckedSubtract(int64_t a, int64_t b, int64_t* out) { return !__builtin_sub_overflow(a, b, out); }
inline bool CheckedMultiply(int64_t a, int64_t b, int64_t* out) { return !__builtin_mul_overflow(a, b, out); }
inline bool CheckedFloorDivide(int64_t a, int64_t b, int64_t* out) {
  if (b > 0) *out = FloorDivide(a, b);
  return b > 0;
}
inline bool CheckedRemainder(int64_t a, int64_t b, int64_t* out) {
  if (b > 0) *out = FloorRemainder(a, b);
  return b > 0;
}

}  // namespace rewright
