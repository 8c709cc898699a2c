#include "core/ir/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace rewright {
namespace {

// Of a floating type: bits of the fraction (that of the leading one counted), least and greatest exponent of a normal
// number.
struct FloatFormat {
  int digits;
  int least, greatest;
};

FloatFormat FormatOf(DType type) {
  switch (type) {
    case DType::kFloat16: return {11, -14, 15};
    case DType::kBFloat16: return {8, -126, 127};
    case DType::kFloat32: return {24, -126, 127};
    case DType::kFloat64: return {53, -1022, 1023};
    default: break;
  }
  CHECK(false) << "no floating type: " << DTypeName(type);
  return {};
}

}  // namespace

const char* DTypeName(DType type) {
  return VisitDType(type, [](auto t) { return decltype(t)::kName; });
}

bool ParseDType(const std::string& name, DType* type) {
  for (DType candidate : kAllDTypes) {
    if (name == DTypeName(candidate)) {
      *type = candidate;
      return true;
    }
  }
  return false;
}

double RoundingOf(DType type) { return std::ldexp(1.0, -FormatOf(type).digits); }

double LargestOf(DType type) {
  const FloatFormat format = FormatOf(type);
  return std::ldexp(2 - std::ldexp(1.0, 1 - format.digits), format.greatest);
}

double SmallestNormalOf(DType type) { return std::ldexp(1.0, FormatOf(type).least); }

double NearestOf(DType type, double number) {
  if (!IsFloating(type)) return std::trunc(number);
  if (type == DType::kFloat64 || number == 0 || !std::isfinite(number)) return number;
  if (type == DType::kFloat32) return static_cast<double>(static_cast<float>(number));
  const FloatFormat format = FormatOf(type);
  int exponent = 0;
  std::frexp(number, &exponent);  // |number| is in [2^(exponent - 1), 2^exponent)
  const int unit = std::max(exponent - 1, format.least) - (format.digits - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(number, -unit)), unit);
  return std::abs(rounded) > LargestOf(type) ? std::copysign(std::numeric_limits<double>::infinity(), number) : rounded;
}

}  // namespace rewright
