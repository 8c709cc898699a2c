// Batch normalization by the batch's own statistics: memory is read once for them and once for the result.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// Numbers so far: their count, their mean and the sum of the squares of deviations from it.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  // The numbers of a block as well (Chan, Golub and LeVeque, 1979).
  void Add(const float* x, int64_t n) {
    const auto size = static_cast<double>(n);
    const double block_mean = Sum(x, n, [](float value) { return static_cast<double>(value); }) / size;
    const double block_squares = Sum(x, n, [&](float value) { return (value - block_mean) * (value - block_mean); });
    const double all = count + size, step = block_mean - mean;
    mean += step * size / all;
    squares += block_squares + step * step * count * size / all;
    count = all;
  }

 private:
  // Adds in lanes, which a processor adds side by side.
  template <typename F>
  static double Sum(const float* x, int64_t n, const F& term) {
    constexpr int64_t kLanes = 16;
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] += term(x[i + k]);
    }
    for (; i < n; ++i) lanes[i % kLanes] += term(x[i]);
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
  }
};

// Buffers: x, scale, bias, out, mean, var; x and out are [samples, channels, size], row-major.
class BatchNormTrainKernel : public Kernel {
 public:
  BatchNormTrainKernel(const AxisSizes& sizes, double epsilon, int threads)
      : samples_(sizes.outer),
        channels_(sizes.size),
        size_(sizes.inner),
        epsilon_(epsilon),
        threads_(ThreadsFor(samples_ * channels_ * size_, kSharedElements, channels_, threads)) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    const float* scale = static_cast<const float*>(buffers[1]);
    const float* bias = static_cast<const float*>(buffers[2]);
    float* out = static_cast<float*>(buffers[3]);
    float* mean = static_cast<float*>(buffers[4]);
    float* var = static_cast<float*>(buffers[5]);
    ForEach(channels_, threads_, [&](int64_t c) {
      const Moments moments = MomentsOf(x + c * size_);
      const double variance = moments.squares / moments.count;
      mean[c] = static_cast<float>(moments.mean);
      var[c] = static_cast<float>(variance);
      const auto factor = static_cast<float>(scale[c] / std::sqrt(variance + epsilon_));
      for (int64_t n = 0; n < samples_; ++n) {
        const int64_t row = (n * channels_ + c) * size_;
        for (int64_t i = row; i < row + size_; ++i) out[i] = (x[i] - mean[c]) * factor + bias[c];
      }
    });
    return absl::OkStatus();
  }

 private:
  // Elements that stay in the first level of cache between the two sums over them.
  static constexpr int64_t kBlock = 2048;

  // The moments of one channel. Short rows of several samples make up a block.
  Moments MomentsOf(const float* x) const {
    Moments moments;
    float block[kBlock];
    int64_t filled = 0;
    for (int64_t n = 0; n < samples_; ++n) {
      const float* row = x + n * channels_ * size_;
      if (size_ >= kBlock / 4) {
        for (int64_t i = 0; i < size_; i += kBlock) moments.Add(row + i, std::min(kBlock, size_ - i));
        continue;
      }
      if (filled + size_ > kBlock) moments.Add(block, std::exchange(filled, 0));
      std::copy_n(row, size_, block + filled);
      filled += size_;
    }
    if (filled > 0) moments.Add(block, filled);
    return moments;
  }

  const int64_t samples_, channels_, size_;
  const double epsilon_;
  const int threads_;
};

absl::StatusOr<bool> PlanBatchNormTrain(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = lowering.graph().node(id);
  const TensorType& type = node.outputs[0];
  if (type.dtype != DType::kFloat32) return false;
  const AxisSizes sizes = SizesAround(type.shape, 1);
  RETURN_IF_ERROR(lowering.EmitRowMajor(
      id, std::make_unique<BatchNormTrainKernel>(sizes, Real(node, "epsilon"), lowering.threads()), node.op->name));
  return true;
}

}  // namespace

KernelEntry BatchNormTrainEntry() { return {.ops = {ops::BatchNormTrain()}, .plan = PlanBatchNormTrain}; }

}  // namespace rewright::cpu
