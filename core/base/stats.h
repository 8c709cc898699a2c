// Statistics of repeated measurements.
#pragma once

#include <vector>

namespace rewright {

// Statistics of repeated measurements of one quantity, in its unit.
struct Summary {
  int count = 0;
  double min = 0;
  double median = 0;
  double p90 = 0;
  double mean = 0;
  // Half the distance between the quartiles, relative to the median: a robust measure of noise.
  double spread = 0;
};

// All zeros for no samples.
Summary Summarize(std::vector<double> samples);

// The q-quantile (0 <= q <= 1), interpolated linearly between the nearest samples; 0 for no samples.
double Quantile(std::vector<double> samples, double q);

// One-sided sign test: the probability of at least `wins` heads in `wins + losses` tosses of a fair coin. The caller
// leaves out ties. A small value shows that the wins are not chance. 1 for no tosses.
double SignTest(int wins, int losses);

}  // namespace rewright
