#include "backends/sampling.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/base/status_macros.h"

namespace rewright {
namespace {

constexpr double kAgreement = 1.03;
constexpr double kTimeCap = 0.1;  // seconds of samples

}  // namespace

absl::StatusOr<ProfileEntry> TakeSamples(const std::function<absl::StatusOr<double>()>& sample, int repetitions,
                                         const SampleLimits& limits, cpu::DisturbanceProbe& probe) {
  std::vector<double> samples;
  double total = 0;
  const auto settled = [&] {
    return samples.size() > 2 && (samples[2] <= samples[0] * kAgreement || samples[0] > limits.enough);
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(probe.patience());
  const auto patient = [&] { return limits.patient && std::chrono::steady_clock::now() < deadline; };
  while (samples.size() < limits.least || (!settled() && total < kTimeCap && samples.size() < limits.most)) {
    while (patient() && !probe.Quiet()) {
    }
    ASSIGN_OR_RETURN(const double seconds, sample());
    if (patient() && !probe.Quiet()) continue;
    samples.insert(std::upper_bound(samples.begin(), samples.end(), seconds), seconds);
    total += seconds * repetitions;
  }
  if (limits.patient) probe.Waited(/*in_vain=*/!patient());
  const size_t n = samples.size();
  return ProfileEntry{samples[0], samples[n / 2], samples[n * 3 / 4] - samples[n / 4],
                      static_cast<int64_t>(n) * repetitions};
}

}  // namespace rewright
