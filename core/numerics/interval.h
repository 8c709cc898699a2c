// Intervals of reals with ends in double, rounded outwards: a result holds every real result.
//
// An infinite end means no bound. Ends that double represents exactly are not moved: [0, 1] stays so.
#pragma once

#include <limits>

namespace rewright {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct Interval {
  double lo = -kUnbounded;
  double hi = kUnbounded;

  static Interval Of(double value) { return {value, value}; }
  bool IsPoint() const { return lo == hi; }
  bool Contains(double value) const { return lo <= value && value <= hi; }
  bool IsBounded() const { return lo > -kUnbounded && hi < kUnbounded; }
  // Returns the largest magnitude.
  double Magnitude() const { return lo < -hi || hi < -lo ? (-lo > hi ? -lo : hi) : (hi > -lo ? hi : -lo); }
  friend bool operator==(const Interval&, const Interval&) = default;
};

Interval operator-(Interval a);
Interval operator+(Interval a, Interval b);
Interval operator-(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
// Divides by the divisors that are not zero.
Interval operator/(Interval a, Interval b);
Interval Square(Interval a);
Interval Hull(Interval a, Interval b);
// Returns the intersection; a if it is empty.
Interval Intersect(Interval a, Interval b);
// Returns the interval of f for a non-decreasing function. The C library's result must be wrong by a few units in the
// last place at most, and exact at 0, at infinities, and at 1 if it is 0 there.
Interval Rising(double (*f)(double), Interval a);
// Returns the interval of a sum of `fewest` to `most` terms.
Interval SumOf(Interval term, double fewest, double most);
Interval ProductOf(Interval factor, double fewest, double most);

}  // namespace rewright
