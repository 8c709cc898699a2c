#include "core/ir/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Not 0 unless they are equal.
double IntegerDifference(int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<double>(a > b ? x - y : y - x);
}

double Difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::abs(a - b);
  return std::isfinite(difference) ? difference : kInfinity;
}

}  // namespace

double LargestMagnitude(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double size = std::abs(tensor.At(i));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  return largest;
}

Shape PositionOf(const Shape& shape, int64_t linear) {
  Shape position(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = linear % shape[axis];
    linear /= shape[axis];
  }
  return position;
}

Comparison Compare(const Tensor& a, const Tensor& b, double rtol, double atol) {
  Comparison result;
  if (a.type() != b.type()) {
    result.same_type = result.close = false;
    result.max_abs = result.max_rel = kInfinity;
    result.text = absl::StrCat("types differ: ", a.type().ToString(), " and ", b.type().ToString());
    return result;
  }
  const bool integers = !IsFloating(a.dtype());
  const auto text = [&](const Tensor& tensor, int64_t i) {
    return integers ? absl::StrCat(tensor.AtInt(i)) : absl::StrCat(tensor.At(i));
  };
  double worst_excess = -kInfinity;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i);
    const double y = b.At(i);
    const double difference = integers ? IntegerDifference(a.AtInt(i), b.AtInt(i)) : Difference(x, y);
    if (difference == 0) continue;
    const double size = std::abs(y);
    result.max_abs = std::max(result.max_abs, difference);
    result.max_rel = std::max(result.max_rel, std::isfinite(size) && size > 0 ? difference / size : kInfinity);
    const double tolerance = std::isfinite(size) && !integers ? atol + rtol * size : 0;
    result.close &= difference <= tolerance;
    if (difference - tolerance > worst_excess) {
      worst_excess = difference - tolerance;
      result.worst = i;
      result.worst_a = x;
      result.worst_b = y;
    }
  }
  result.text = result.worst < 0
                    ? "equal"
                    : absl::StrCat("worst at ", ShapeString(PositionOf(a.shape(), result.worst)), ": ",
                                   text(a, result.worst), " and ", text(b, result.worst), "; greatest difference ",
                                   result.max_abs, ", relative ", result.max_rel);
  return result;
}


}  // namespace rewright
