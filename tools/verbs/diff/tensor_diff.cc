#include "tools/verbs/diff/tensor_diff.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/tensor/compare.h"

namespace rewright {

TensorDiff DiffTensors(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance) {
  CHECK(expected.type() == actual.type()) << expected.type().ToString() << " " << actual.type().ToString();
  const double largest = LargestMagnitude(expected);
  const bool floating = IsFloating(expected.dtype());
  const double atol = tolerance.atol >= 0 ? tolerance.atol : DefaultDistance(expected.dtype(), largest);
  const Comparison comparison = floating ? Compare(actual, expected, tolerance.rtol, atol) : Compare(actual, expected);
  TensorDiff diff;
  diff.equal = comparison.close;
  diff.max_abs_diff = comparison.max_abs;
  // Against an all-zero tensor every difference is infinitely large.
  diff.max_rel_diff = comparison.max_abs == 0 ? 0 : comparison.max_abs / largest;
  diff.worst = comparison.worst;
  diff.worst_expected = comparison.worst_b;
  diff.worst_actual = comparison.worst_a;
  return diff;
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
                                ShapeString(PositionOf(expected[i].shape(), diff.worst)), diff.worst_expected,
                                diff.worst_actual);
  }
  return all;
}

}  // namespace rewright
