// Arithmetic of one element in each representation, with which the lane kernels are instantiated;
// core/ir/function_values.h has the scalar functions.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/interpreter/program.h"

namespace rewright::interp {

// IEEE floats.
template <typename F>
struct FloatArith {
  using T = F;
  static T FromReal(double a) { return static_cast<T>(a); }
  static T FromInt(int64_t a) { return static_cast<T>(a); }
  // Truncates; values beyond the range of int64 are clamped, NaN is 0.
  static int64_t ToInt(T a) {
    if (a != a) return 0;
    if (a >= static_cast<T>(9223372036854775808.0)) return std::numeric_limits<int64_t>::max();
    if (a < static_cast<T>(-9223372036854775808.0)) return std::numeric_limits<int64_t>::min();
    return static_cast<int64_t>(a);
  }
  static T Lowest() { return -std::numeric_limits<T>::infinity(); }
  static T Highest() { return std::numeric_limits<T>::infinity(); }
  static bool Better(T a, T b) { return a > b || (a != a && b == b); }  // for argmax: the first NaN wins
  static bool Worse(T a, T b) { return a < b || (a != a && b == b); }
};

// Integers that wrap around.
template <typename I>
struct IntArith {
  using T = I;
  static T FromReal(double a) {
    constexpr double kHalf = 9223372036854775808.0;  // of the range of 64 bits without a sign
    if (std::is_same_v<T, uint64_t> && a >= kHalf) {
      return a >= 2 * kHalf ? std::numeric_limits<T>::max() : static_cast<T>(a - kHalf) + (T{1} << 63);
    }
    return static_cast<T>(FloatArith<double>::ToInt(a));
  }
  static T FromInt(int64_t a) { return static_cast<T>(a); }
  static int64_t ToInt(T a) { return static_cast<int64_t>(a); }
  static T Lowest() { return std::numeric_limits<T>::min(); }
  static T Highest() { return std::numeric_limits<T>::max(); }
  static bool Better(T a, T b) { return a > b; }
  static bool Worse(T a, T b) { return a < b; }
};

// Truth values.
struct BoolArith {
  using T = uint8_t;
  static T FromReal(double a) { return a != 0; }
  static T FromInt(int64_t a) { return a != 0; }
  static int64_t ToInt(T a) { return a; }
  static T Lowest() { return 0; }
  static T Highest() { return 1; }
  static bool Better(T a, T b) { return a > b; }
  static bool Worse(T a, T b) { return a < b; }
};

// Calls f with the arithmetic of the representation: f(FloatArith<float>{}).
template <typename F>
auto Dispatch(Rep rep, const F& f) {
  switch (rep) {
    case Rep::kBool: return f(BoolArith{});
    case Rep::kInt32: return f(IntArith<int32_t>{});
    case Rep::kInt64: return f(IntArith<int64_t>{});
    case Rep::kUInt64: return f(IntArith<uint64_t>{});
    case Rep::kFloat: return f(FloatArith<float>{});
    case Rep::kDouble: break;
  }
  return f(FloatArith<double>{});
}

}  // namespace rewright::interp
