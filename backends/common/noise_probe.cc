#include "backends/common/noise_probe.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "runtime/measure/timing_policy.h"

namespace rewright {
namespace {

constexpr int kDepth = 64;  // of a block of a matrix product; its operands stay in the first level of cache
constexpr int kBlocks = 100;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

NoiseProbe::NoiseProbe(int threads) : threads_(threads), least_(Seconds()), longest_wait_(timing::kMostWaitSeconds) {
  for (const double end = Now() + timing::kCalibrationSeconds; Now() < end;) least_ = std::min(least_, Seconds());
}

bool NoiseProbe::Quiet() {
  const double seconds = Seconds();
  least_ = std::min(least_, seconds);
  return seconds <= least_ * timing::kQuietTolerance;
}

void NoiseProbe::Waited(bool in_vain) {
  longest_wait_ = std::clamp(longest_wait_ * (in_vain ? 0.5 : 2), timing::kLeastWaitSeconds, timing::kMostWaitSeconds);
}

double NoiseProbe::Seconds() const {
  const cpu::SimdTable& simd = cpu::Simd();
  const double start = Now();
#pragma omp parallel num_threads(threads_)
  {
    const size_t rows = static_cast<size_t>(simd.gemm_rows), columns = static_cast<size_t>(simd.gemm_columns);
    alignas(64) float a[16 * kDepth], b[64 * kDepth], c[16 * 64];
    std::fill_n(a, rows * kDepth, 1.0f);
    std::fill_n(b, columns * kDepth, 1.0f);
    for (int i = 0; i < kBlocks; ++i) {
      simd.gemm_block(a, kDepth, 1, b, kDepth, c, simd.gemm_columns, simd.gemm_rows, simd.gemm_columns, false, nullptr,
                      nullptr, 0);
    }
  }
  return Now() - start;
}

ProfileEntry EntryOf(const std::vector<double>& samples, int64_t repetitions) {
  const size_t n = samples.size();
  return {samples[0], samples[n / 2], samples[n * 3 / 4] - samples[n / 4], static_cast<int64_t>(n) * repetitions};
}

absl::StatusOr<ProfileEntry> TakeSamples(const std::function<absl::StatusOr<double>()>& sample, int repetitions,
                                         const SampleLimits& limits, NoiseProbe& probe) {
  std::vector<double> samples;
  double total = 0;
  const auto settled = [&] {
    return samples.size() > 2 && (samples[2] <= samples[0] * timing::kSampleAgreement || samples[0] > limits.enough);
  };
  const double deadline = Now() + probe.longest_wait();
  const auto waits = [&] { return limits.wait_for_quiet && Now() < deadline; };
  while (samples.size() < limits.least ||
         (!settled() && total < timing::kSampleSeconds && samples.size() < limits.most)) {
    while (waits() && !probe.Quiet()) {
    }
    ASSIGN_OR_RETURN(const double seconds, sample());
    if (waits() && !probe.Quiet()) continue;
    samples.insert(std::upper_bound(samples.begin(), samples.end(), seconds), seconds);
    total += seconds * repetitions;
  }
  if (limits.wait_for_quiet) probe.Waited(/*in_vain=*/!waits());
  return EntryOf(samples, repetitions);
}

}  // namespace rewright
