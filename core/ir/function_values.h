// Scalar functions on a processor, computed one element at a time and inlined, for loops. All are made of the
// definitions in core/ir/functions.def.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/ir/functions.h"

namespace rewright {

// The value of functions on element types for which they are not defined.
struct NoValue {};

// a to the power of b, wrapping around; truncated if the exponent is negative. 0 has no negative power.
template <typename T>
T IntegerPower(T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (b < 0) return a == 1 ? 1 : a == T(-1) ? (b % 2 == 0 ? 1 : -1) : 0;
  U result = 1, factor = static_cast<U>(a);
  for (U rest = static_cast<U>(b); rest != 0; rest >>= 1) {
    if (rest & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

#define REWRIGHT_SOURCE(...) __VA_ARGS__
#define FUNCTION inline
#include "core/tensor/random_bits.inc"
#undef FUNCTION
#undef REWRIGHT_SOURCE

template <Fn fn>
struct FnOf;

#define NONE \
  NoValue {}
#define MATH(name) std::name
#define PARTIAL(condition, value) ((condition) ? Partial<T>{true, (value)} : Partial<T>{false, T()})
#define REWRIGHT_DEFINITION(Id, arity, real, integer, boolean, T_ARGUMENTS, BYTE_ARGUMENTS) \
  template <>                                                                               \
  struct FnOf<Fn::k##Id> {                                                                  \
    static constexpr int kArity = arity;                                                    \
    template <typename T>                                                                   \
    [[gnu::always_inline]] static auto Real(T_ARGUMENTS) {                                  \
      return real;                                                                          \
    }                                                                                       \
    template <typename T>                                                                   \
    [[gnu::always_inline]] static auto Integer(T_ARGUMENTS) {                               \
      using U [[maybe_unused]] = std::make_unsigned_t<T>;                                   \
      return integer;                                                                       \
    }                                                                                       \
    [[gnu::always_inline]] static auto Boolean(BYTE_ARGUMENTS) { return boolean; }          \
  };
#define REWRIGHT_ONE(TYPE) [[maybe_unused]] TYPE a
#define REWRIGHT_TWO(TYPE) [[maybe_unused]] TYPE a, [[maybe_unused]] TYPE b
#define REWRIGHT_REAL(Id, name, summary, low, high, traits, real, field, derivative) \
  REWRIGHT_DEFINITION(Id, 1, real, NONE, NONE, REWRIGHT_ONE(T), REWRIGHT_ONE(uint8_t))
#define REWRIGHT_UNARY(Id, name, traits, real, integer, boolean, field, derivative) \
  REWRIGHT_DEFINITION(Id, 1, real, integer, boolean, REWRIGHT_ONE(T), REWRIGHT_ONE(uint8_t))
#define REWRIGHT_BINARY(Id, name, sign, traits, real, integer, boolean, field, by_a, by_b) \
  REWRIGHT_DEFINITION(Id, 2, real, integer, boolean, REWRIGHT_TWO(T), REWRIGHT_TWO(uint8_t))
#include "core/ir/functions.def"
#undef REWRIGHT_TWO
#undef REWRIGHT_ONE
#undef REWRIGHT_DEFINITION
#undef PARTIAL
#undef MATH
#undef NONE

// Computes the function for elements of the type T. The result is a truth value if it compares, a Partial<T> if it may
// have no value, NoValue if it is not defined for T.
template <Fn fn, typename T, typename... More>
[[gnu::always_inline]] inline auto FnValue(T a, More... more) {
  if constexpr (std::is_floating_point_v<T>) {
    return FnOf<fn>::template Real<T>(a, more...);
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    return FnOf<fn>::Boolean(a, more...);
  } else {
    return FnOf<fn>::template Integer<T>(a, more...);
  }
}

template <Fn fn, typename T>
consteval auto FnResultOf() {
  if constexpr (FnOf<fn>::kArity == 1) {
    return std::type_identity<decltype(FnValue<fn>(T()))>();
  } else {
    return std::type_identity<decltype(FnValue<fn>(T(), T()))>();
  }
}
template <Fn fn, typename T>
using FnResult = typename decltype(FnResultOf<fn, T>())::type;

template <Fn fn, typename T>
inline constexpr bool kFnIsDefined = !std::is_same_v<FnResult<fn, T>, NoValue>;
template <Fn fn, typename T>
inline constexpr bool kFnIsPartial = std::is_same_v<FnResult<fn, T>, Partial<T>>;

}  // namespace rewright
