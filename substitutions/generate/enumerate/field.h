// The arithmetic of fingerprints: the prime field of order p = 2^61 - 1, and documented stand-ins for the functions
// that a field does not have.
//
// An element is an integer 0 <= x < p. `Centered` is the representative of least absolute value: small integers,
// negative ones included, are themselves. Exact are: + - * /, powers with small integer exponents, and constants (a
// double is a dyadic rational, and 2^61 = 1 in the field). The rest are stand-ins: deterministic functions of their
// arguments that keep the laws below, so that equal graphs have equal fingerprints more often than under a plain hash.
// A law that a stand-in does not keep costs the generator a candidate and never makes one true.
//
//   order (<, <=, max, min, abs)  of centered representatives: a total order, so max and min are a lattice, and small
//                                 integers compare as integers; not preserved by + and * where they wrap around
//   exp                           3^Centered(x): exp(0) = 1, exp(-x) = 1/exp(x), exp(a+b) = exp(a) exp(b) unless a + b
//                                 wraps around (never for |a|, |b| < 2^59)
//   sigmoid, tanh, sinh, cosh     by their definitions from exp
//   sqrt                          x^((p+1)/4): sqrt(a b) = sqrt(a) sqrt(b); squared gives x or -x
//   erf                           keyed hash, made odd: erf(-x) = -erf(x); so are other odd functions
//   log                           keyed hash
//   floor, ceil                   the identity on |Centered(x)| < 2^31 (integers), else keyed hash
//   pow                           exact for integer exponents up to 64 in absolute value, sqrt for 1/2, else keyed hash
//   +inf, -inf                    the largest and the smallest element of the order
//
// Which function is computed how stands in core/ir/functions.def.
#pragma once

#include <cstdint>

#include "core/ir/functions.h"

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

inline bool FieldLess(uint64_t a, uint64_t b) { return FieldCentered(a) < FieldCentered(b); }
inline uint64_t FieldAbs(uint64_t a) { return FieldCentered(a) < 0 ? FieldNegate(a) : a; }
inline uint64_t FieldHalf(uint64_t a) { return FieldMultiply(a, (kFieldPrime + 1) / 2); }
uint64_t FieldExp(uint64_t x);
uint64_t FieldSqrt(uint64_t x);
uint64_t FieldTanh(uint64_t x);
uint64_t FieldSigmoid(uint64_t x);
// 0 has no negative power.
bool FieldPowExists(uint64_t x, uint64_t exponent);
uint64_t FieldPow(uint64_t x, uint64_t exponent);
// Stand-ins for functions without known laws, by a key of each: any function, an odd one, an even one, one that leaves
// integers as they are.
uint64_t FieldHash(uint64_t key, uint64_t x);
uint64_t FieldOdd(uint64_t key, uint64_t x);
uint64_t FieldEven(uint64_t key, uint64_t x);
uint64_t FieldStep(uint64_t key, uint64_t x);

// The field's stand-in for a function. It ignores the second argument of a function of one.
template <Fn fn>
struct FieldFn;
#define PARTIAL(condition, value) ((condition) ? Partial<uint64_t>{true, (value)} : Partial<uint64_t>{false, 0})
#define REWRIGHT_DEFINITION(Id, field)                                                     \
  template <>                                                                              \
  struct FieldFn<Fn::k##Id> {                                                              \
    static auto Value([[maybe_unused]] uint64_t a, [[maybe_unused]] uint64_t b) {          \
      [[maybe_unused]] constexpr uint64_t key = 0x5e00 + static_cast<uint64_t>(Fn::k##Id); \
      return field;                                                                        \
    }                                                                                      \
  };
#define REWRIGHT_REAL(Id, name, summary, low, high, traits, real, field, derivative) REWRIGHT_DEFINITION(Id, field)
#define REWRIGHT_UNARY(Id, name, traits, real, integer, boolean, field, derivative) REWRIGHT_DEFINITION(Id, field)
#define REWRIGHT_BINARY(Id, name, sign, traits, real, integer, boolean, field, by_a, by_b) \
  REWRIGHT_DEFINITION(Id, field)
#include "core/ir/functions.def"
#undef REWRIGHT_DEFINITION
#undef PARTIAL

}  // namespace rewright
