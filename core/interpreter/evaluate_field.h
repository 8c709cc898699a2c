// Arithmetic for fingerprints: the prime field of order p = 2^61 - 1, and documented stand-ins for the functions that
// a field does not have.
//
// An element is an integer 0 <= x < p. `Centered` is the representative of least absolute value: small integers,
// negative ones included, are themselves. What is exact: + - * /, powers with small integer exponents, and constants
// (a double is a dyadic rational, and 2^61 = 1 in the field). The rest are stand-ins; they are deterministic functions
// of their arguments that keep these laws, so that equal graphs have equal fingerprints more often than under a plain
// hash. A law that a stand-in does not keep costs the generator a candidate and never makes one true.
//
//   order (<, <=, max, min, abs)  of centered representatives: a total order, so max and min are a lattice, and small
//                                 integers compare as integers; not preserved by + and * where they wrap around
//   exp                           3^Centered(x): exp(0) = 1, exp(-x) = 1/exp(x), exp(a+b) = exp(a) exp(b) unless a + b
//                                 wraps around (never for |a|, |b| < 2^59)
//   sigmoid, tanh                 by their definitions from exp
//   sqrt                          x^((p+1)/4): sqrt(a b) = sqrt(a) sqrt(b); squared gives x or -x
//   log                           keyed hash
//   erf                           keyed hash, made odd: erf(-x) = -erf(x)
//   floor, ceil                   the identity on |Centered(x)| < 2^31 (integers), else keyed hash
//   pow                           exact for integer exponents up to 64 in absolute value, sqrt for 1/2, else keyed hash
//   +inf, -inf                    the largest and the smallest element of the order
#pragma once

#include <cstdint>

namespace rewright {

inline constexpr uint64_t kFieldPrime = (uint64_t{1} << 61) - 1;

inline uint64_t FieldReduce(unsigned __int128 x) {
  const uint64_t sum = static_cast<uint64_t>(x & kFieldPrime) + static_cast<uint64_t>(x >> 61);
  return sum >= kFieldPrime ? sum - kFieldPrime : sum;
}
inline uint64_t FieldAdd(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum >= kFieldPrime ? sum - kFieldPrime : sum;
}
inline uint64_t FieldNegate(uint64_t a) { return a == 0 ? 0 : kFieldPrime - a; }
inline uint64_t FieldSubtract(uint64_t a, uint64_t b) { return FieldAdd(a, FieldNegate(b)); }
inline uint64_t FieldMultiply(uint64_t a, uint64_t b) { return FieldReduce(static_cast<unsigned __int128>(a) * b); }
uint64_t FieldPower(uint64_t base, uint64_t exponent);
// The inverse of 0 is 0; callers that divide test for it.
uint64_t FieldInverse(uint64_t a);

uint64_t FieldFromInteger(int64_t value);
// Exact for finite numbers; NaN is a keyed hash.
uint64_t FieldFromReal(double value);
// The representative in (-p/2, p/2).
inline int64_t FieldCentered(uint64_t a) {
  return a > kFieldPrime / 2 ? static_cast<int64_t>(a) - static_cast<int64_t>(kFieldPrime) : static_cast<int64_t>(a);
}

// A hash of one or two words under a fixed key per function; well mixed in all 64 bits.
uint64_t KeyedHash(uint64_t key, uint64_t a, uint64_t b = 0);

uint64_t FieldExp(uint64_t x);
uint64_t FieldLog(uint64_t x);
uint64_t FieldSqrt(uint64_t x);
uint64_t FieldErf(uint64_t x);
uint64_t FieldTanh(uint64_t x);
uint64_t FieldSigmoid(uint64_t x);
uint64_t FieldFloor(uint64_t x);
uint64_t FieldCeil(uint64_t x);
// False when x is 0 and the exponent negative.
bool FieldPow(uint64_t x, uint64_t exponent, uint64_t* result);

}  // namespace rewright
