// Pooling of blocked layouts, one row of outputs at a time.
#include <algorithm>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kGrain = 32768;  // elements read below which one thread does everything

class PoolKernel : public Kernel {
 public:
  PoolKernel(const PoolProblem& problem, const Layout& src, const Layout& dst, int threads)
      : problem_(problem), src_(src), dst_(dst), blocks_((src.dims[1] + src.block - 1) / src.block) {
    const int64_t rows = dst.dims[0] * blocks_ * dst.dims[2];
    threads_ = src.num_elements() < kGrain ? 1 : static_cast<int>(std::min<int64_t>(threads, rows));
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    float* out = static_cast<float*>(buffers[1]);
    const int64_t height = dst_.dims[2];
    const int64_t rows = dst_.dims[0] * blocks_ * height;
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t y = i % height, block = i / height % blocks_, n = i / height / blocks_;
      Row(x + n * src_.strides[0] + block * src_.strides[1],
          out + n * dst_.strides[0] + block * dst_.strides[1] + y * dst_.strides[2], y);
    }
    return absl::OkStatus();
  }

 private:
  void Row(const float* x, float* out, int64_t y) const {
    const int64_t dilation = problem_.dilations[0];
    const int64_t top = y * problem_.strides[0] - problem_.pads[0];
    int64_t first = 0, last = problem_.kernel[0];
    while (top + first * dilation < 0) ++first;
    while (last > first && top + (last - 1) * dilation >= src_.dims[2]) --last;
    SimdTable::PoolRow row;
    row.width = src_.dims[3];
    row.out_width = dst_.dims[3];
    row.rows = last - first;
    row.row_step = dilation * src_.strides[2];
    row.kernel = problem_.kernel[1];
    row.stride = problem_.strides[1];
    row.before = problem_.pads[1];
    row.dilation = problem_.dilations[1];
    row.block = src_.block;
    row.count_all =
        problem_.count_padding ? static_cast<float>(problem_.kernel[0] * problem_.kernel[1]) : 0.0f;
    const auto pool = problem_.max ? Simd().pool_max_row : Simd().pool_sum_row;
    pool(out, x + (top + first * dilation) * src_.strides[2], row);
  }

  const PoolProblem problem_;
  const Layout src_, dst_;
  const int64_t blocks_;
  int threads_;
};

bool EveryWindowSeesAPoint(const PoolProblem& problem, const Layout& src) {
  for (size_t axis = 0; axis < 2; ++axis) {
    for (int64_t i = 0; i < problem.dst[2 + axis]; ++i) {
      bool sees = false;
      for (int64_t k = 0; k < problem.kernel[axis] && !sees; ++k) {
        const int64_t at = i * problem.strides[axis] - problem.pads[axis] + k * problem.dilations[axis];
        sees = at >= 0 && at < src.dims[2 + axis];
      }
      if (!sees) return false;
    }
  }
  return true;
}

}  // namespace

bool CanPool(const PoolProblem& problem, const Layout& src) {
  return src.blocked() && src.block % Simd().lanes == 0 && (src.dims[3] == 1 || src.strides[3] == src.block) &&
         (!src.IsPadded() || EveryWindowSeesAPoint(problem, src));
}

KernelPtr MakePoolKernel(const PoolProblem& problem, const Layout& src, int threads) {
  return std::make_unique<PoolKernel>(problem, src, Layout::Blocked(problem.dst, src.block), threads);
}

}  // namespace rewright::cpu
