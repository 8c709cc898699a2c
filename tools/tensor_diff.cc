#include "tools/tensor_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/check.h"

namespace rewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double LargestFinite(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double value = std::abs(tensor.At(i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

double Distance(double expected, double actual) {
  if (std::isnan(expected) && std::isnan(actual)) return 0;
  if (expected == actual) return 0;  // equal infinities among them
  if (!std::isfinite(expected) || !std::isfinite(actual)) return kInfinity;
  return std::abs(actual - expected);
}

TensorDiff DiffExact(const Tensor& expected, const Tensor& actual) {
  TensorDiff diff;
  double largest = 0;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const int64_t a = expected.AtInt(i);
    const int64_t b = actual.AtInt(i);
    largest = std::max(largest, std::abs(static_cast<double>(a)));
    const double distance = std::abs(static_cast<double>(b) - static_cast<double>(a));
    diff.num_unequal += a != b;
    if (diff.worst >= 0 && distance <= diff.max_abs_diff) continue;
    diff.max_abs_diff = distance;
    diff.worst = i;
    diff.worst_expected = static_cast<double>(a);
    diff.worst_actual = static_cast<double>(b);
  }
  diff.equal = diff.num_unequal == 0;
  diff.max_rel_diff = largest > 0 ? diff.max_abs_diff / largest : diff.max_abs_diff;
  return diff;
}

}  // namespace

TensorDiff DiffTensors(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance) {
  CHECK(expected.type() == actual.type()) << expected.type().ToString() << " " << actual.type().ToString();
  if (!IsFloating(expected.dtype())) return DiffExact(expected, actual);
  TensorDiff diff;
  const double largest = LargestFinite(expected);
  const double atol = tolerance.atol >= 0 ? tolerance.atol : kDefaultAtolScale * largest;
  double worst_excess = -kInfinity;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double a = expected.At(i);
    const double b = actual.At(i);
    const double distance = Distance(a, b);
    const double allowed = atol + (std::isfinite(a) ? tolerance.rtol * std::abs(a) : 0);
    diff.max_abs_diff = std::max(diff.max_abs_diff, distance);
    diff.num_unequal += distance > allowed;
    if (diff.worst >= 0 && distance - allowed <= worst_excess) continue;
    worst_excess = distance - allowed;
    diff.worst = i;
    diff.worst_expected = a;
    diff.worst_actual = b;
  }
  diff.equal = diff.num_unequal == 0;
  // Against an all-zero tensor every difference is infinitely large.
  diff.max_rel_diff = diff.max_abs_diff == 0 ? 0 : diff.max_abs_diff / largest;
  return diff;
}

std::string PositionString(const Shape& shape, int64_t index) {
  Shape position(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return ShapeString(position);
}

OutputsDiff DiffOutputs(const std::vector<std::string>& names, const std::vector<Tensor>& expected,
                        const std::vector<Tensor>& actual, const Tolerance& tolerance) {
  CHECK(names.size() == expected.size() && names.size() == actual.size()) << names.size();
  OutputsDiff all;
  double worst_rel = -1;
  for (size_t i = 0; i < names.size(); ++i) {
    const TensorDiff diff = DiffTensors(expected[i], actual[i], tolerance);
    all.equal = all.equal && diff.equal;
    all.max_abs_diff = std::max(all.max_abs_diff, diff.max_abs_diff);
    all.max_rel_diff = std::max(all.max_rel_diff, diff.max_rel_diff);
    // An output out of tolerance is worse than any within.
    const double rank = diff.max_rel_diff + (diff.equal ? 0 : 1e300);
    if (diff.worst < 0 || rank <= worst_rel) continue;
    worst_rel = rank;
    all.worst = absl::StrFormat("output %s %s: %.9g and %.9g", names[i],
                                PositionString(expected[i].shape(), diff.worst), diff.worst_expected,
                                diff.worst_actual);
  }
  return all;
}

}  // namespace rewright
