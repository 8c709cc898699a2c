// Arithmetic of one element in each representation: what the lane kernels are instantiated with.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/interpreter/evaluate_field.h"
#include "core/interpreter/program.h"

namespace rewright::interp {

// IEEE floats. Functions are those of the C library; max and min propagate NaN.
template <typename F>
struct FloatArith {
  using T = F;
  static T Add(T a, T b) { return a + b; }
  static T Sub(T a, T b) { return a - b; }
  static T Mul(T a, T b) { return a * b; }
  static bool Div(T a, T b, T* out) { return *out = a / b, true; }
  static bool Pow(T a, T b, T* out) { return *out = std::pow(a, b), true; }
  static T Neg(T a) { return -a; }
  static T Max(T a, T b) { return a > b || a != a ? a : b; }
  static T Min(T a, T b) { return a < b || a != a ? a : b; }
  static bool Less(T a, T b) { return a < b; }
  static bool LessEqual(T a, T b) { return a <= b; }
  static bool Equal(T a, T b) { return a == b; }
  static T Exp(T a) { return std::exp(a); }
  static T Log(T a) { return std::log(a); }
  static T Sqrt(T a) { return std::sqrt(a); }
  static T Erf(T a) { return std::erf(a); }
  static T Tanh(T a) { return std::tanh(a); }
  static T Sigmoid(T a) { return T{1} / (T{1} + std::exp(-a)); }
  static T Abs(T a) { return std::abs(a); }
  static T Floor(T a) { return std::floor(a); }
  static T Ceil(T a) { return std::ceil(a); }
  static T FromReal(double a) { return static_cast<T>(a); }
  static T FromInt(int64_t a) { return static_cast<T>(a); }
  // Truncates; what an int64 does not hold is clamped, NaN is 0.
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
  using U = std::make_unsigned_t<T>;
  static T Add(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
  static T Sub(T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }
  static T Mul(T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }
  static T Neg(T a) { return static_cast<T>(U{0} - static_cast<U>(a)); }
  static bool Div(T a, T b, T* out) {  // truncates
    if (b == 0) return false;
    *out = b == -1 ? Neg(a) : a / b;
    return true;
  }
  static bool Pow(T a, T b, T* out) {  // the exact power, truncated where the exponent is negative
    if (b < 0) {
      if (a == 0) return false;
      *out = a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
      return true;
    }
    T result = 1;
    for (U rest = static_cast<U>(b); rest != 0; rest >>= 1) {
      if (rest & 1) result = Mul(result, a);
      a = Mul(a, a);
    }
    *out = result;
    return true;
  }
  static T Max(T a, T b) { return a > b ? a : b; }
  static T Min(T a, T b) { return a < b ? a : b; }
  static bool Less(T a, T b) { return a < b; }
  static bool LessEqual(T a, T b) { return a <= b; }
  static bool Equal(T a, T b) { return a == b; }
  static T Abs(T a) { return a < 0 ? Neg(a) : a; }
  static T Floor(T a) { return a; }
  static T Ceil(T a) { return a; }
  static T FromReal(double a) { return static_cast<T>(FloatArith<double>::ToInt(a)); }
  static T FromInt(int64_t a) { return static_cast<T>(a); }
  static int64_t ToInt(T a) { return a; }
  static T Lowest() { return std::numeric_limits<T>::min(); }
  static T Highest() { return std::numeric_limits<T>::max(); }
  static bool Better(T a, T b) { return a > b; }
  static bool Worse(T a, T b) { return a < b; }
};

// Reals as integers: quotients must be whole, functions that leave the integers are hashes.
struct ExactArith : IntArith<int64_t> {
  static T Hash(uint64_t key, T a, T b = 0) {
    return static_cast<T>(KeyedHash(key, static_cast<uint64_t>(a), static_cast<uint64_t>(b)) >> 32);
  }
  static bool Div(T a, T b, T* out) { return IntArith::Div(a, b, out) && Mul(*out, b) == a; }
  static bool Pow(T a, T b, T* out) {
    if (b < 0 && a != 1 && a != -1) return false;
    return IntArith::Pow(a, b, out);
  }
  static T Exp(T a) { return Hash(1, a); }
  static T Log(T a) { return Hash(2, a); }
  static T Sqrt(T a) { return Hash(3, a); }
  static T Erf(T a) { return a < 0 ? Neg(Hash(4, Neg(a))) : Hash(4, a); }
  static T Tanh(T a) { return a < 0 ? Neg(Hash(5, Neg(a))) : Hash(5, a); }
  static T Sigmoid(T a) { return Hash(6, a); }
};

// Reals in the prime field.
struct FieldArith {
  using T = uint64_t;
  static T Add(T a, T b) { return FieldAdd(a, b); }
  static T Sub(T a, T b) { return FieldSubtract(a, b); }
  static T Mul(T a, T b) { return FieldMultiply(a, b); }
  static bool Div(T a, T b, T* out) { return *out = FieldMultiply(a, FieldInverse(b)), b != 0; }
  static bool Pow(T a, T b, T* out) { return FieldPow(a, b, out); }
  static T Neg(T a) { return FieldNegate(a); }
  static bool Less(T a, T b) { return FieldCentered(a) < FieldCentered(b); }
  static bool LessEqual(T a, T b) { return !Less(b, a); }
  static bool Equal(T a, T b) { return a == b; }
  static T Max(T a, T b) { return Less(a, b) ? b : a; }
  static T Min(T a, T b) { return Less(a, b) ? a : b; }
  static T Exp(T a) { return FieldExp(a); }
  static T Log(T a) { return FieldLog(a); }
  static T Sqrt(T a) { return FieldSqrt(a); }
  static T Erf(T a) { return FieldErf(a); }
  static T Tanh(T a) { return FieldTanh(a); }
  static T Sigmoid(T a) { return FieldSigmoid(a); }
  static T Abs(T a) { return FieldCentered(a) < 0 ? FieldNegate(a) : a; }
  static T Floor(T a) { return FieldFloor(a); }
  static T Ceil(T a) { return FieldCeil(a); }
  static T FromReal(double a) { return FieldFromReal(a); }
  static T FromInt(int64_t a) { return FieldFromInteger(a); }
  static int64_t ToInt(T a) { return FieldCentered(a); }
  static T Lowest() { return kFieldPrime / 2 + 1; }
  static T Highest() { return kFieldPrime / 2; }
  static bool Better(T a, T b) { return Less(b, a); }
  static bool Worse(T a, T b) { return Less(a, b); }
};

// Truth values: max and sum are `or`, min and product are `and`.
struct BoolArith {
  using T = uint8_t;
  static T Add(T a, T b) { return a | b; }
  static T Mul(T a, T b) { return a & b; }
  static T Max(T a, T b) { return a | b; }
  static T Min(T a, T b) { return a & b; }
  static bool Less(T a, T b) { return a < b; }
  static bool LessEqual(T a, T b) { return a <= b; }
  static bool Equal(T a, T b) { return a == b; }
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
    case Rep::kFloat: return f(FloatArith<float>{});
    case Rep::kDouble: return f(FloatArith<double>{});
    case Rep::kExact: return f(ExactArith{});
    case Rep::kField: break;
  }
  return f(FieldArith{});
}

}  // namespace rewright::interp
