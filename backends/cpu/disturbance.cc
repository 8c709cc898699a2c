#include "backends/cpu/disturbance.h"

#include <omp.h>

#include <algorithm>
#include <chrono>

#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {
namespace {

constexpr int kDepth = 64;  // of a block of a matrix product; its operands stay in the first level of cache
constexpr int kBlocks = 100;
constexpr double kTolerance = 1.15;   // times the least time
constexpr double kCalibration = 0.2;  // seconds
constexpr double kMostPatience = 0.25, kLeastPatience = 0.002;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

DisturbanceProbe::DisturbanceProbe(int threads) : threads_(threads), least_(Seconds()), patience_(kMostPatience) {
  for (const double end = Now() + kCalibration; Now() < end;) least_ = std::min(least_, Seconds());
}

bool DisturbanceProbe::Quiet() {
  const double seconds = Seconds();
  least_ = std::min(least_, seconds);
  return seconds <= least_ * kTolerance;
}

void DisturbanceProbe::Waited(bool in_vain) {
  patience_ = std::clamp(patience_ * (in_vain ? 0.5 : 2), kLeastPatience, kMostPatience);
}

double DisturbanceProbe::Seconds() const {
  const SimdTable& simd = Simd();
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

}  // namespace rewright::cpu
