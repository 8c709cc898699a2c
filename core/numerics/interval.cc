#include "core/numerics/interval.h"

#include <algorithm>
#include <cmath>

namespace rewright {
namespace {

constexpr double kLargestFinite = std::numeric_limits<double>::max();

double Below(double x) { return std::nextafter(x, -kUnbounded); }
double Above(double x) { return std::nextafter(x, kUnbounded); }

// An exact result: `rounded` is its nearest double, and `error` the sign of the rounding error.
Interval Around(double rounded, double error, bool finite_operands) {
  if (std::isinf(rounded)) {
    if (!finite_operands) return Interval::Of(rounded);
    return rounded > 0 ? Interval{kLargestFinite, rounded} : Interval{rounded, -kLargestFinite};
  }
  return {error < 0 ? Below(rounded) : rounded, error > 0 ? Above(rounded) : rounded};
}

bool AreFinite(double a, double b) { return std::isfinite(a) && std::isfinite(b); }

// True for numbers for which the remainder of a product or quotient is exact.
bool IsAmple(double x) { return std::abs(x) > 0x1p-900 && std::abs(x) < 0x1p900; }

Interval Sum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return Around(sum, (a - (sum - part)) + (b - part), AreFinite(a, b));
}

Interval Product(double a, double b) {
  if (a == 0 || b == 0) return Interval::Of(0);
  const double product = a * b;
  const Interval around = Around(product, std::fma(a, b, -product), AreFinite(a, b));
  return IsAmple(product) || std::isinf(product) ? around : Interval{Below(product), Above(product)};
}

// b is not zero. An infinite a over an infinite b may be any number of that sign; other corners give the ends.
Interval Quotient(double a, double b) {
  if (a == 0 || std::isinf(b)) return Interval::Of(0);
  const double quotient = a / b;
  const double remainder = std::fma(-quotient, b, a);
  const Interval around =
      Around(quotient, (remainder > 0) == (b > 0) ? std::abs(remainder) : -std::abs(remainder), AreFinite(a, b));
  return (IsAmple(quotient) && IsAmple(a) && IsAmple(b)) || std::isinf(quotient)
             ? around
             : Interval{Below(quotient), Above(quotient)};
}

template <typename F>
Interval Corners(Interval a, Interval b, const F& f) {
  Interval all = f(a.lo, b.lo);
  all = Hull(all, f(a.lo, b.hi));
  all = Hull(all, f(a.hi, b.lo));
  return Hull(all, f(a.hi, b.hi));
}

double Widened(double value, double argument, bool up) {
  if (argument == 0 || (argument == 1 && value == 0) || std::isinf(argument) || std::isnan(value)) return value;
  for (int step = 0; step < 4; ++step) value = up ? Above(value) : Below(value);
  return value;
}

}  // namespace

Interval operator-(Interval a) { return {-a.hi, -a.lo}; }

Interval operator+(Interval a, Interval b) {
  const double lo = Sum(a.lo, b.lo).lo, hi = Sum(a.hi, b.hi).hi;
  return {std::isnan(lo) ? -kUnbounded : lo, std::isnan(hi) ? kUnbounded : hi};
}

Interval operator-(Interval a, Interval b) { return a + -b; }

Interval operator*(Interval a, Interval b) { return Corners(a, b, Product); }

Interval operator/(Interval a, Interval b) {
  if (b.lo < 0 && b.hi > 0) return a == Interval::Of(0) ? a : Interval{};
  if (b.hi <= 0 && b.lo < 0) return -a / -b;
  if (b.lo > 0) return Corners(a, b, Quotient);
  if (b.hi <= 0) return {};  // by zero alone
  return {a.lo < 0 ? -kUnbounded : Quotient(a.lo, b.hi).lo, a.hi > 0 ? kUnbounded : Quotient(a.hi, b.hi).hi};
}

Interval Square(Interval a) {
  const double magnitude = a.Magnitude();
  const double least = a.Contains(0) ? 0 : std::min(std::abs(a.lo), std::abs(a.hi));
  return {std::max(0.0, Product(least, least).lo), Product(magnitude, magnitude).hi};
}

Interval Hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Interval Intersect(Interval a, Interval b) {
  const Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a;
}

Interval Rising(double (*f)(double), Interval a) {
  const double lo = Widened(f(a.lo), a.lo, false), hi = Widened(f(a.hi), a.hi, true);
  return {std::isnan(lo) ? -kUnbounded : lo, std::isnan(hi) ? kUnbounded : hi};
}

Interval SumOf(Interval term, double fewest, double most) {
  return {(term.lo < 0 ? Product(term.lo, most) : Product(term.lo, fewest)).lo,
          (term.hi > 0 ? Product(term.hi, most) : Product(term.hi, fewest)).hi};
}

Interval ProductOf(Interval factor, double fewest, double most) {
  const auto power = [](double base, double exponent) { return exponent == 0 ? 1 : std::pow(base, exponent); };
  const double magnitude = factor.Magnitude();
  const double hi = Widened(std::max(power(magnitude, most), power(magnitude, fewest)), 1, true);
  if (factor.lo < 0) return {-hi, hi};
  return {Widened(std::min(power(factor.lo, most), power(factor.lo, fewest)), 1, false), hi};
}

}  // namespace rewright
