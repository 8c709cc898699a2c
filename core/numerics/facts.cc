#include "core/numerics/facts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

constexpr DType kFloatDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

FloatTypes BitOf(DType dtype) {
  for (int i = 0; i < 4; ++i) {
    if (kFloatDTypes[i] == dtype) return static_cast<FloatTypes>(1 << i);
  }
  return 0;
}

// Returns the range of the numbers of an integer type, or of truth values.
Interval RangeOf(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  const int bits = BitsOf(dtype);
  if (IsUnsigned(dtype)) return {0, std::ldexp(1.0, bits) - (bits < 64 ? 1 : 0)};
  return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - (bits < 64 ? 1 : 0)};
}

// Drops bounds that a result of arithmetic may exceed before it is rounded: the greatest number of 64 bits is no
// double, so a sum may seem to lie in range.
void NoteWrapping(DType dtype, Facts* facts) {
  if (IsFloating(dtype) || dtype == DType::kBool || BitsOf(ComputedDType(dtype)) < 64) return;
  if (facts->range.hi >= RangeOf(ComputedDType(dtype)).hi) facts->range = {};
}

// A factor slightly below 1: a lower bound times it stays a lower bound after rounding.
constexpr double kBarelyLess = 1 - 0x1p-51;

// Returns the types that hold every integer of the interval.
FloatTypes TypesOfIntegers(Interval range) {
  FloatTypes types = 0;
  for (const DType dtype : kFloatDTypes) {
    if (range.Magnitude() <= 1 / RoundingOf(dtype)) types |= BitOf(dtype);
  }
  return types;
}

FloatTypes TypesOfNumber(double value) {
  FloatTypes types = 0;
  for (const DType dtype : kFloatDTypes) {
    if (std::isnan(value) || NearestOf(dtype, value) == value) types |= BitOf(dtype);
  }
  return types;
}

bool MayBe(const Facts& a, double value) {
  return a.range.Contains(value) && !(value == 0 && a.nonzero) && !(std::isinf(value) && !a.may_be_infinite);
}

bool IsPowerOfTwo(double value) {
  int exponent;
  return value >= 1 && std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

// Combines facts of both arguments for a result that is neither.
Facts Begin(const Facts& a, const Facts& b) {
  Facts result;
  result.may_be_undefined = a.may_be_undefined || b.may_be_undefined;
  result.may_be_infinite = a.may_be_infinite || b.may_be_infinite;
  result.rounds = a.rounds || b.rounds;
  result.rounded = a.rounded || b.rounded;
  return result;
}

double Squareroot(double x) { return std::sqrt(x); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); }

// Facts of a non-decreasing function with values in `image`, on the domain `domain`. Outside of it there is no value.
// The result may be infinite at an end of the domain only if f is.
void Rise(double (*f)(double), const Facts& a, Interval domain, Interval image, Facts* result) {
  if (a.range.lo < domain.lo || a.range.hi > domain.hi) result->may_be_undefined = true;
  const Interval inside = Intersect(a.range, domain);
  const bool meets = domain.lo <= inside.lo && inside.hi <= domain.hi;
  result->range = meets ? Intersect(Rising(f, inside), image) : image;
  for (const double end : {domain.lo, domain.hi}) {
    if (std::isfinite(end) && MayBe(a, end) && std::isinf(f(end))) result->may_be_infinite = true;
  }
  // An infinite argument gives a finite value if the function is bounded there.
  if (image.IsBounded()) result->may_be_infinite = false;
}

void Add(const Facts& a, const Facts& b, Facts* result) {
  result->range = a.range + b.range;
  if ((MayBe(a, kUnbounded) && MayBe(b, -kUnbounded)) || (MayBe(a, -kUnbounded) && MayBe(b, kUnbounded))) {
    result->may_be_undefined = true;
  }
  const bool up = a.IsNonnegative() && b.IsNonnegative(), down = a.range.hi <= 0 && b.range.hi <= 0;
  if (up || down) {
    result->nonzero = a.nonzero || b.nonzero;
    if (a.smallest > 0 && b.smallest > 0) result->smallest = std::min(a.smallest, b.smallest);
  }
  result->integral = a.integral && b.integral;
  if (a.range == Interval::Of(0)) result->held_by = b.held_by;
  if (b.range == Interval::Of(0)) result->held_by = a.held_by;
}

Facts Negative(Facts a) {
  a.range = -a.range;
  return a;
}

void Multiply(const Facts& a, const Facts& b, Facts* result) {
  result->range = a.range * b.range;
  if ((a.may_be_infinite && MayBe(b, 0)) || (b.may_be_infinite && MayBe(a, 0))) result->may_be_undefined = true;
  result->nonzero = a.nonzero && b.nonzero;
  result->smallest = a.smallest * b.smallest * kBarelyLess;
  result->integral = a.integral && b.integral;
  for (const auto& [x, y] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (x->range == Interval::Of(0)) result->held_by = kAllFloats;
    if (x->range.IsPoint() && IsPowerOfTwo(std::abs(x->range.lo))) result->held_by |= y->held_by;
  }
}

void Divide(DType dtype, const Facts& a, const Facts& b, Facts* result) {
  result->range = a.range / b.range;
  if (!IsFloating(dtype)) {
    result->integral = true;
    result->range = {std::trunc(result->range.lo), std::trunc(result->range.hi)};
    return;
  }
  if (MayBe(b, 0)) {
    if (MayBe(a, 0)) result->may_be_undefined = true;
    result->may_be_infinite = true;
  } else if (!a.may_be_infinite) {
    result->may_be_infinite = false;
  }
  if (a.may_be_infinite && b.may_be_infinite) result->may_be_undefined = true;
  result->nonzero = a.nonzero && !b.may_be_infinite;
  if (!b.may_be_infinite && std::isfinite(b.range.Magnitude()) && b.range.Magnitude() > 0) {
    result->smallest = a.smallest / b.range.Magnitude() * kBarelyLess;
  }
  if (b.range == Interval::Of(1) || b.range == Interval::Of(-1)) result->held_by = a.held_by;
}

Interval PowerCorners(Interval base, Interval exponent) {
  Interval all = Interval::Of(1);
  bool first = true;
  for (const double x : {base.lo, base.hi}) {
    for (const double y : {exponent.lo, exponent.hi}) {
      const double value = x == 1 || y == 0 ? 1 : std::pow(x, y);
      const Interval one{value * (1 - 0x1p-50), value * (1 + 0x1p-50)};
      all = first ? one : Hull(all, one);
      first = false;
    }
  }
  return Intersect(all, {0, kUnbounded});
}

void Power(const Facts& a, const Facts& b, Facts* result) {
  const double exponent = b.range.lo;
  if (b.range.IsPoint() && exponent == 2) {
    result->range = Square(a.range);
    result->nonzero = a.nonzero;
    result->smallest = a.smallest * a.smallest * kBarelyLess;
    result->integral = a.integral;
    return;
  }
  if (b.range.IsPoint() && exponent == std::trunc(exponent) && std::abs(exponent) < 0x1p20) {
    const bool even = std::fmod(exponent, 2) == 0;
    const double magnitude = a.range.Magnitude();
    const double least = a.range.Contains(0) ? 0 : std::min(std::abs(a.range.lo), std::abs(a.range.hi));
    const Interval size = PowerCorners({least, magnitude}, b.range);
    if (exponent < 0 && MayBe(a, 0)) result->may_be_infinite = true;
    if (exponent < 0 && !MayBe(a, 0)) result->may_be_infinite = false;
    result->range = even || a.range.lo >= 0 ? size : a.range.hi <= 0 ? -size : Hull(size, -size);
    result->nonzero = exponent == 0 || (a.nonzero && !(exponent < 0 && a.may_be_infinite));
    result->integral = a.integral && exponent >= 0;
    if (exponent == 1) {
      result->range = a.range;
      result->held_by = a.held_by;
    }
    return;
  }
  if (a.range.lo >= 0) {
    result->range = PowerCorners(a.range, b.range);
    if (MayBe(a, 0) && b.range.lo < 0) result->may_be_infinite = true;
    result->nonzero = a.nonzero && !a.may_be_infinite && !b.may_be_infinite;
    return;
  }
  result->may_be_undefined = true;
  if (MayBe(a, 0) && b.range.lo < 0) result->may_be_infinite = true;
}

Facts TruthFacts(const Facts& a, const Facts& b, bool can_be_true, bool can_be_false) {
  Facts result = Begin(a, b);
  const bool undefined = result.may_be_undefined;  // a comparison with NaN is false
  result.range = {can_be_false || undefined ? 0.0 : 1.0, can_be_true ? 1.0 : 0.0};
  if (result.range.lo > result.range.hi) result.range = {0, 1};
  result.may_be_undefined = result.may_be_infinite = false;
  result.integral = true;
  return result;
}

// Facts of a step function: its values are integers.
void Step(double (*f)(double), const Facts& a, Facts* result) {
  result->range = {f(a.range.lo), f(a.range.hi)};
  result->integral = !a.may_be_infinite;
  if (a.integral) result->smallest = a.smallest, result->nonzero = a.nonzero;
  result->held_by = a.held_by;
}

double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

}  // namespace

FloatTypes TypesAbove(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return BitOf(DType::kFloat16) | TypesAbove(DType::kFloat32);
    case DType::kBFloat16: return BitOf(DType::kBFloat16) | TypesAbove(DType::kFloat32);
    case DType::kFloat32: return BitOf(DType::kFloat32) | BitOf(DType::kFloat64);
    case DType::kFloat64: return BitOf(DType::kFloat64);
    default: return kAllFloats;
  }
}

bool Holds(FloatTypes types, DType dtype) { return !IsFloating(dtype) || (types & BitOf(dtype)) != 0; }

Facts Facts::Of(double value) {
  Facts facts;
  facts.may_be_undefined = std::isnan(value);
  facts.may_be_infinite = std::isinf(value);
  if (!facts.may_be_undefined) facts.range = Interval::Of(value);
  facts.nonzero = value != 0;
  facts.smallest = std::isfinite(value) ? std::abs(value) : 0;
  facts.integral = std::isfinite(value) && value == std::trunc(value);
  facts.held_by = TypesOfNumber(value);
  return facts;
}

Facts Facts::Unknown(DType dtype) {
  Facts facts;
  if (!IsFloating(dtype)) {
    facts.range = RangeOf(dtype);
    facts.integral = true;
    facts.held_by = TypesOfIntegers(facts.range);
  } else {
    facts.held_by = TypesAbove(dtype);
  }
  Tighten(&facts);
  return facts;
}

std::string Facts::ToString() const {
  std::string text = absl::StrCat("[", range.lo, ", ", range.hi, "]");
  if (nonzero) text += ", nonzero";
  if (integral) text += ", integral";
  if (may_be_undefined) text += ", perhaps undefined";
  if (may_be_infinite) text += ", perhaps infinite";
  text += rounds ? ", rounds" : rounded ? ", rounded before" : ", exact";
  return text;
}

Facts Join(const Facts& a, const Facts& b) {
  Facts result = Begin(a, b);
  result.range = Hull(a.range, b.range);
  result.nonzero = a.nonzero && b.nonzero;
  const auto smallest = [](const Facts& facts) {
    return facts.range == Interval::Of(0) ? kUnbounded : facts.smallest;  // no element is other than 0
  };
  result.smallest = std::min(smallest(a), smallest(b));
  if (std::isinf(result.smallest)) result.smallest = 0;
  result.integral = a.integral && b.integral;
  result.held_by = a.held_by & b.held_by;
  return result;
}

void Tighten(Facts* facts) {
  if (facts->range.lo > 0 || facts->range.hi < 0) {
    facts->nonzero = true;
    facts->smallest = std::max(facts->smallest, std::min(std::abs(facts->range.lo), std::abs(facts->range.hi)));
  }
  if (facts->integral) facts->smallest = std::max(facts->smallest, 1.0);
  if (std::isinf(facts->smallest) || facts->range == Interval::Of(0)) facts->smallest = 0;
}

void Round(DType dtype, Facts* facts) {
  if (!IsFloating(dtype)) {
    const Interval possible = RangeOf(dtype);
    facts->integral = true;
    facts->may_be_infinite = facts->may_be_undefined = false;
    if (facts->range.lo < possible.lo || facts->range.hi > possible.hi) {
      facts->range = possible;
      facts->nonzero = false;
      facts->smallest = 0;
    }
    facts->held_by = TypesOfIntegers(facts->range);
    Tighten(facts);
    return;
  }
  if (facts->integral) facts->held_by |= TypesOfIntegers(facts->range);
  if (!Holds(facts->held_by, dtype)) {
    facts->rounds = facts->rounded = true;
    facts->held_by = TypesAbove(dtype);
  }
  Tighten(facts);
}

Facts SquareFacts(DType dtype, const Facts& a) {
  Facts result = Begin(a, a);
  result.range = Square(a.range);
  result.nonzero = a.nonzero;
  result.smallest = a.smallest * a.smallest * kBarelyLess;
  result.integral = a.integral;
  Round(ComputedDType(dtype), &result);
  return result;
}

Facts SumFacts(DType dtype, const Facts& term, double fewest, double most) {
  if (most <= 0) return Facts::Of(0);
  Facts result = Begin(term, term);
  result.range = SumOf(term.range, fewest, most);
  if (MayBe(term, kUnbounded) && MayBe(term, -kUnbounded)) result.may_be_undefined = true;
  result.integral = term.integral;
  const bool one_sided = term.range.lo >= 0 || term.range.hi <= 0;
  result.nonzero = fewest >= 1 && one_sided && term.nonzero;
  if (one_sided) result.smallest = term.smallest;
  if (most <= 1) result.held_by = term.held_by;
  NoteWrapping(dtype, &result);
  Round(ComputedDType(dtype), &result);
  return result;
}

Facts ProductFacts(DType dtype, const Facts& factor, double fewest, double most) {
  if (most <= 0) return Facts::Of(1);
  Facts result = Begin(factor, factor);
  result.range = ProductOf(factor.range, fewest, most);
  if (factor.may_be_infinite && MayBe(factor, 0)) result.may_be_undefined = true;
  result.integral = factor.integral;
  result.nonzero = factor.nonzero;
  if (most <= 1) result.held_by = factor.held_by;
  NoteWrapping(dtype, &result);
  Round(ComputedDType(dtype), &result);
  return result;
}

Facts CastFacts(DType from, DType to, const Facts& a) {
  Facts result = a;
  if (to == DType::kBool) {
    result = TruthFacts(a, a, MayBe(a, 0) ? a.range != Interval::Of(0) : true, MayBe(a, 0));
  } else if (!IsFloating(to) && IsFloating(from)) {
    // An element that does not fit, or is NaN, may become any integer.
    if (a.may_be_undefined || a.may_be_infinite) result.range = {};
    Facts cut = result;
    Step(std::trunc, cut, &result);
    result.nonzero = a.range.lo >= 1 || a.range.hi <= -1;
    result.smallest = 0;
  }
  Round(ComputedDType(to), &result);
  return result;
}

Facts CallFacts(Fn fn, DType dtype, const Facts& a, const Facts& b) {
  const bool unary = FnArity(fn) == 1;
  Facts result = Begin(a, unary ? a : b);
  const Interval all{}, unit{0, 1}, both{-1, 1}, positive{0, kUnbounded};
  constexpr double kHalfTurn = 3.1415926535897936;  // above pi
  switch (fn) {
    case Fn::kAdd: Add(a, b, &result); break;
    case Fn::kSub: Add(a, Negative(b), &result); break;
    case Fn::kMul: Multiply(a, b, &result); break;
    case Fn::kDiv: Divide(dtype, a, b, &result); break;
    case Fn::kNeg: result = Negative(a); break;
    case Fn::kAbs:
      result = a;
      if (a.range.lo < 0) result.range = a.range.hi <= 0 ? -a.range : Interval{0, a.range.Magnitude()};
      break;
    case Fn::kMax:
    case Fn::kMin: {
      const bool max = fn == Fn::kMax;
      result = Join(a, b);
      result.range = max ? Interval{std::max(a.range.lo, b.range.lo), std::max(a.range.hi, b.range.hi)}
                         : Interval{std::min(a.range.lo, b.range.lo), std::min(a.range.hi, b.range.hi)};
      if (std::isfinite(result.range.lo) && std::isfinite(result.range.hi)) result.may_be_infinite = false;
      if (max ? (a.IsPositive() || b.IsPositive())
              : ((a.range.hi <= 0 && a.nonzero) || (b.range.hi <= 0 && b.nonzero))) {
        result.nonzero = true;
      }
      break;
    }
    case Fn::kPow: Power(a, b, &result); break;
    case Fn::kExp:
      Rise(std::exp, a, all, positive, &result);
      if (!MayBe(a, kUnbounded)) result.may_be_infinite = false;
      result.nonzero = !MayBe(a, -kUnbounded);
      break;
    case Fn::kLog:
      Rise(std::log, a, positive, all, &result);
      if (!MayBe(a, 0) && !a.may_be_infinite) result.may_be_infinite = false;
      break;
    case Fn::kSqrt:
      Rise(Squareroot, a, positive, positive, &result);
      result.nonzero = a.nonzero;
      result.smallest = std::sqrt(a.smallest) * kBarelyLess;
      break;
    case Fn::kErf:
      Rise(std::erf, a, all, both, &result);
      result.nonzero = a.nonzero;
      break;
    case Fn::kTanh:
      Rise(std::tanh, a, all, both, &result);
      result.nonzero = a.nonzero;
      break;
    case Fn::kSigmoid:
      Rise(Sigmoid, a, all, unit, &result);
      result.nonzero = !MayBe(a, -kUnbounded);
      break;
    case Fn::kSoftplus:
      Rise(Softplus, a, all, positive, &result);
      result.nonzero = !MayBe(a, -kUnbounded);
      break;
    case Fn::kAsin: Rise(std::asin, a, both, {-kHalfTurn / 2, kHalfTurn / 2}, &result); break;
    case Fn::kAcos: {
      Rise(std::asin, a, both, {-kHalfTurn / 2, kHalfTurn / 2}, &result);
      const Interval quarter{1.5707963267948966, 1.5707963267948968};
      result.range = Intersect(quarter - result.range, {0, kHalfTurn});
      break;
    }
    case Fn::kAtan:
      Rise(std::atan, a, all, {-kHalfTurn / 2, kHalfTurn / 2}, &result);
      result.nonzero = a.nonzero;
      break;
    case Fn::kSinh:
      Rise(std::sinh, a, all, all, &result);
      result.nonzero = a.nonzero;
      break;
    case Fn::kAsinh:
      Rise(std::asinh, a, all, all, &result);
      result.nonzero = a.nonzero;
      break;
    case Fn::kCosh: {
      Facts size = a;
      if (a.range.lo < 0) size.range = a.range.hi <= 0 ? -a.range : Interval{0, a.range.Magnitude()};
      Rise(std::cosh, size, all, {1, kUnbounded}, &result);
      break;
    }
    case Fn::kAcosh: Rise(std::acosh, a, {1, kUnbounded}, positive, &result); break;
    case Fn::kAtanh: Rise(std::atanh, a, both, all, &result); break;
    case Fn::kSin:
    case Fn::kCos:
      result.range = both;
      if (a.may_be_infinite) result.may_be_undefined = true;
      result.may_be_infinite = false;
      break;
    case Fn::kFloor: Step(std::floor, a, &result); break;
    case Fn::kCeil: Step(std::ceil, a, &result); break;
    case Fn::kRound: Step(std::nearbyint, a, &result); break;
    case Fn::kSign:
      Step(SignOf, a, &result);
      result.integral = true;
      result.may_be_infinite = false;
      result.nonzero = a.nonzero;
      break;
    case Fn::kLess: result = TruthFacts(a, b, a.range.lo < b.range.hi, a.range.hi >= b.range.lo); break;
    case Fn::kLessEqual: result = TruthFacts(a, b, a.range.lo <= b.range.hi, a.range.hi > b.range.lo); break;
    case Fn::kEqual:
      result = TruthFacts(a, b, a.range.lo <= b.range.hi && b.range.lo <= a.range.hi,
                          !(a.range.IsPoint() && a.range == b.range));
      break;
    case Fn::kAnd:
      result = TruthFacts(a, b, a.range.hi > 0 && b.range.hi > 0, a.range.lo <= 0 || b.range.lo <= 0);
      break;
    case Fn::kOr:
      result = TruthFacts(a, b, a.range.hi > 0 || b.range.hi > 0, a.range.lo <= 0 && b.range.lo <= 0);
      break;
    case Fn::kNot: result = TruthFacts(a, a, a.range.lo <= 0, a.range.hi > 0); break;
    default:
      // Facts of a function of which only the traits in the table are known.
      if (FnHas(fn, FnTrait::kPositive)) {
        result.range = positive;
        result.nonzero = !a.may_be_infinite;
      }
      if (IsFloating(dtype)) result.may_be_undefined = result.may_be_infinite = true;
      break;
  }
  if (fn != Fn::kMax && fn != Fn::kMin) NoteWrapping(dtype, &result);
  const DType computed = FnHas(fn, FnTrait::kCompares) ? DType::kBool : ComputedDType(dtype);
  if (fn == Fn::kTan && !a.may_be_infinite) result.may_be_undefined = result.may_be_infinite = false;
  Round(computed, &result);
  return result;
}

}  // namespace rewright
