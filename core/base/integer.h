// Integer arithmetic that C++ lacks: division rounded down, operations that report overflow of 64 bits, mixing.
#pragma once

#include <cstdint>

namespace rewright {

// floor(a / b) and a - b * floor(a / b), for b > 0.
constexpr int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
constexpr int64_t FloorRemainder(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

// Mixes the 64 bits of `x`: the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
// Generators", OOPSLA 2014).
constexpr uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns |a|, also of the least number.
constexpr uint64_t AbsoluteValue(int64_t a) { return a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a); }

// True if the double, rounded, fits 64 bits.
constexpr bool FitsInt64(double x) { return x >= -0x1p63 && x < 0x1p63; }

// Return false, with `out` unspecified, if the result does not fit or the divisor is not positive.
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
