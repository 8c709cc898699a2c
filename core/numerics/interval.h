// Intervals of reals with ends in double, rounded outwards: what is computed holds every real result.
//
// An infinite end says that there is no bound. Ends that double represents exactly are not moved: [0, 1] stays so.
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
  // The largest magnitude.
  double Magnitude() const { return lo < -hi || hi < -lo ? (-lo > hi ? -lo : hi) : (hi > -lo ? hi : -lo); }
  friend bool operator==(const Interval&, const Interval&) = default;
};

Interval operator-(Interval a);
Interval operator+(Interval a, Interval b);
Interval operator-(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
// Over the divisors that are not zero.
Interval operator/(Interval a, Interval b);
Interval Square(Interval a);
Interval Hull(Interval a, Interval b);
// The numbers that both have; where there is none, a.
Interval Intersect(Interval a, Interval b);
// The interval of f for a function that never falls, of which the C library's result is wrong by a few units in the
// last place at most, and exact at 0 and at infinities, and where it is 0 at 1.
Interval Rising(double (*f)(double), Interval a);
// The sum of any number of terms from `fewest` to `most`.
Interval SumOf(Interval term, double fewest, double most);
Interval ProductOf(Interval factor, double fewest, double most);

}  // namespace rewright
