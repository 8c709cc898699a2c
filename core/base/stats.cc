#include "core/base/stats.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "core/base/check.h"

namespace rewright {
namespace {

double SortedQuantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const size_t below = position;
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  return sorted[below] + weight * (sorted[above] - sorted[below]);
}

}  // namespace

double Quantile(std::vector<double> samples, double q) {
  CHECK(q >= 0 && q <= 1) << q;
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return SortedQuantile(samples, q);
}

Summary Summarize(std::vector<double> samples) {
  Summary summary;
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  summary.count = static_cast<int>(samples.size());
  summary.min = samples.front();
  summary.median = SortedQuantile(samples, 0.5);
  summary.p90 = SortedQuantile(samples, 0.9);
  summary.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  if (summary.median != 0) {
    summary.spread = (SortedQuantile(samples, 0.75) - SortedQuantile(samples, 0.25)) / 2 / std::abs(summary.median);
  }
  return summary;
}

double SignTest(int wins, int losses) {
  CHECK(wins >= 0 && losses >= 0) << wins << " " << losses;
  const int n = wins + losses;
  double probability = 0;
  for (int k = wins; k <= n; ++k) {
    // Computed by logarithms, so that a thousand tosses neither overflow nor underflow.
    probability += std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) - n * std::log(2.0));
  }
  return std::min(1.0, probability);
}

}  // namespace rewright
