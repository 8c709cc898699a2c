// Operations on contiguous rows: softmax and layer normalization.
#include <algorithm>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kGrain = 8192;  // elements below which one thread does everything

template <typename F>
void ForRows(int64_t rows, int64_t size, int threads, const F& f) {
  const int count = rows * size < kGrain ? 1 : static_cast<int>(std::min<int64_t>(threads, rows));
#pragma omp parallel for schedule(static) num_threads(count) if (count > 1)
  for (int64_t row = 0; row < rows; ++row) f(row);
}

class SoftmaxKernel : public Kernel {
 public:
  SoftmaxKernel(RowOp op, int64_t rows, int64_t size, int threads)
      : op_(op), rows_(rows), size_(size), threads_(threads) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    float* out = static_cast<float*>(buffers[1]);
    const auto f = op_ == RowOp::kSoftmax ? Simd().softmax_row : Simd().log_softmax_row;
    ForRows(rows_, size_, threads_, [&](int64_t row) { f(out + row * size_, x + row * size_, size_); });
    return absl::OkStatus();
  }

 private:
  const RowOp op_;
  const int64_t rows_, size_;
  const int threads_;
};

class LayerNormKernel : public Kernel {
 public:
  LayerNormKernel(int64_t rows, int64_t size, double epsilon, int threads)
      : rows_(rows), size_(size), epsilon_(static_cast<float>(epsilon)), threads_(threads) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    const float* scale = static_cast<const float*>(buffers[1]);
    const float* bias = static_cast<const float*>(buffers[2]);
    float* out = static_cast<float*>(buffers[3]);
    ForRows(rows_, size_, threads_, [&](int64_t row) {
      Simd().layer_norm_row(out + row * size_, x + row * size_, scale, bias, size_, epsilon_);
    });
    return absl::OkStatus();
  }

 private:
  const int64_t rows_, size_;
  const float epsilon_;
  const int threads_;
};

}  // namespace

KernelPtr MakeSoftmaxKernel(RowOp op, int64_t rows, int64_t size, int threads) {
  return std::make_unique<SoftmaxKernel>(op, rows, size, threads);
}

KernelPtr MakeLayerNormKernel(int64_t rows, int64_t size, double epsilon, int threads) {
  return std::make_unique<LayerNormKernel>(rows, size, epsilon, threads);
}

}  // namespace rewright::cpu
