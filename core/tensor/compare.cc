#include "core/tensor/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the difference; it is not 0 unless the integers are equal.
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

double DefaultDistance(DType dtype, double largest) {
  constexpr double kPart = 1e-4, kRoundings = 8;
  return (IsHalf(dtype) ? kRoundings * RoundingOf(dtype) : kPart) * largest;
}

Tensor WhereNumbersAre(const Tensor& expected, const Tensor& actual) {
  if (FirstNotFinite(expected) < 0) return actual;
  Tensor result(actual.type());
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    result.Set(i, std::isfinite(expected.At(i)) ? actual.At(i) : expected.At(i));
  }
  return result;
}

int64_t FirstNotFinite(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype())) return -1;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const bool finite =
        tensor.dtype() == DType::kFloat32 ? std::isfinite(tensor.as<float>()[i]) : std::isfinite(tensor.At(i));
    if (!finite) return i;
  }
  return -1;
}

double LargestMagnitude(const Tensor& tensor) {
  double largest = 0;
  if (tensor.dtype() == DType::kFloat32) {  // outputs are many; finite magnitudes are ordered as their bits are
    constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
    const auto* const bits = static_cast<const uint32_t*>(tensor.data());
    uint32_t most = 0;
    const int64_t count = tensor.num_elements();
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t magnitude = bits[i] & kMagnitude;
      most = std::max(most, magnitude < kInfinity ? magnitude : 0);
    }
    return std::bit_cast<float>(most);
  }
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
  const auto look = [&](int64_t i, double x, double y) {
    const double difference = integers ? IntegerDifference(a.AtInt(i), b.AtInt(i)) : Difference(x, y);
    if (difference == 0) return;
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
  };
  const int64_t count = a.num_elements();
  if (a.dtype() == DType::kFloat32) {  // outputs are many
    for (int64_t i = 0; i < count; ++i) look(i, a.as<float>()[i], b.as<float>()[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) look(i, a.At(i), b.At(i));
  }
  result.text = result.worst < 0
                    ? "equal"
                    : absl::StrCat("worst at ", ShapeString(PositionOf(a.shape(), result.worst)), ": ",
                                   text(a, result.worst), " and ", text(b, result.worst), "; greatest difference ",
                                   result.max_abs, ", relative ", result.max_rel);
  return result;
}

}  // namespace rewright
