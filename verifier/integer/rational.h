// Exact rational coefficients of normal forms. Numerator and denominator fit 64 bits; a larger result is a GiveUp.
#pragma once

#include <cstdint>
#include <string>

#include "verifier/integer/give_up.h"

namespace rewright::verifier {

class Rational {
 public:
  Rational() = default;
  Rational(int64_t value) : num_(value) {}  // NOLINT: an integer is a rational
  Rational(int64_t num, int64_t den) { Set(num, den); }

  int64_t num() const { return num_; }
  int64_t den() const { return den_; }
  bool IsZero() const { return num_ == 0; }
  bool IsOne() const { return num_ == 1 && den_ == 1; }
  int Sign() const { return num_ > 0 ? 1 : num_ < 0 ? -1 : 0; }
  double ToDouble() const { return static_cast<double>(num_) / static_cast<double>(den_); }
  std::string ToString() const {
    return den_ == 1 ? std::to_string(num_) : std::to_string(num_) + "/" + std::to_string(den_);
  }

  friend Rational operator+(const Rational& a, const Rational& b) {
    return Make(Wide(a.num_) * b.den_ + Wide(b.num_) * a.den_, Wide(a.den_) * b.den_);
  }
  friend Rational operator-(const Rational& a) { return Make(-Wide(a.num_), a.den_); }
  friend Rational operator-(const Rational& a, const Rational& b) { return a + (-b); }
  friend Rational operator*(const Rational& a, const Rational& b) {
    return Make(Wide(a.num_) * b.num_, Wide(a.den_) * b.den_);
  }
  // b is not zero.
  friend Rational operator/(const Rational& a, const Rational& b) {
    return Make(Wide(a.num_) * b.den_, Wide(a.den_) * b.num_);
  }
  friend bool operator==(const Rational& a, const Rational& b) { return a.num_ == b.num_ && a.den_ == b.den_; }
  friend bool operator!=(const Rational& a, const Rational& b) { return !(a == b); }

 private:
  using Wide = __int128;

  static Rational Make(Wide num, Wide den) {
    Rational r;
    r.Set(num, den);
    return r;
  }
  void Set(Wide num, Wide den) {
    if (den < 0) num = -num, den = -den;
    Wide a = num < 0 ? -num : num, b = den;
    while (b != 0) {
      Wide t = a % b;
      a = b;
      b = t;
    }
    if (a > 1) num /= a, den /= a;
    if (num > INT64_MAX || num < -INT64_MAX || den > INT64_MAX) throw GiveUp("a coefficient does not fit 64 bits");
    num_ = static_cast<int64_t>(num);
    den_ = static_cast<int64_t>(den);
  }

  int64_t num_ = 0;
  int64_t den_ = 1;
};

}  // namespace rewright::verifier
