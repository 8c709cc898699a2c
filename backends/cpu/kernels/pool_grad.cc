// Gradients of pools: every window hands its cotangent to the points that it saw, so each is looked at once, where the
// derived operator asks at every point which windows saw it.
#include <algorithm>
#include <cmath>

#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"

namespace rewright::cpu {
namespace {

// One window along an axis: the place of tap 0, and the taps that lie within the image.
struct Taps {
  int64_t at = 0, first = 0, last = 0;  // first <= tap < last
  float counted = 0;                    // points that take part in a mean
};

std::vector<Taps> TapsOf(const PoolProblem& problem, const Shape& image, bool ceil_mode, size_t axis) {
  const int64_t size = image[2 + axis], kernel = problem.kernel[axis], dilation = problem.dilations[axis];
  std::vector<Taps> windows(static_cast<size_t>(problem.dst[2 + axis]));
  int64_t at = -problem.pads[axis];
  for (Taps& window : windows) {
    window.at = at;
    window.last = kernel;
    while (window.first < kernel && at + window.first * dilation < 0) ++window.first;
    while (window.last > window.first && at + (window.last - 1) * dilation >= size) --window.last;
    const int64_t padded = ceil_mode ? std::min(at + kernel, size + problem.pads[2 + axis]) - at : kernel;
    window.counted = static_cast<float>(problem.count_padding ? padded : window.last - window.first);
    at += problem.strides[axis];
  }
  return windows;
}

// A maximum of images in blocks of channels. Buffers: x, the cotangent, the result, all blocked.
class BlockedMaxPoolGradKernel : public Kernel {
 public:
  BlockedMaxPoolGradKernel(const PoolProblem& problem, const Layout& image, int threads)
      : problem_(problem),
        image_(image),
        planes_(image.dims[0] * image.dims[1] / image.block),
        threads_(ThreadsFor(image.num_elements(), 2 * kSharedElements, planes_, threads)) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* const x = static_cast<const float*>(buffers[0]);
    const float* const u = static_cast<const float*>(buffers[1]);
    float* const out = static_cast<float*>(buffers[2]);
    const int64_t points = image_.strides[1], line = problem_.dst[3] * image_.block, height = problem_.dst[2];
    ForEach(planes_, threads_, [&](int64_t i) {
      std::fill_n(out + i * points, points, 0.0f);
      for (int64_t y = 0; y < height; ++y) {
        const WindowRow row = WindowRowAt(problem_, image_, y);
        const int64_t at = i * points + row.first;
        Simd().pool_max_grad_row(out + at, x + at, u + (i * height + y) * line, row.windows);
      }
    });
    return absl::OkStatus();
  }

 private:
  const PoolProblem problem_;
  const Layout image_;
  const int64_t planes_;
  const int threads_;
};

// Buffers: of a maximum x, then the cotangent and the result; all row-major.
class PoolGradKernel : public Kernel {
 public:
  PoolGradKernel(const PoolProblem& problem, const Shape& image, bool ceil_mode, int threads)
      : max_(problem.max),
        planes_(image[0] * image[1]),
        height_(image[2]),
        width_(image[3]),
        down_(problem.dilations[0]),
        right_(problem.dilations[1]),
        rows_(TapsOf(problem, image, ceil_mode, 0)),
        columns_(TapsOf(problem, image, ceil_mode, 1)) {
    const int64_t windows = planes_ * problem.dst[2] * problem.dst[3];
    const int64_t taps = windows * problem.kernel[0] * problem.kernel[1];
    threads_ = ThreadsFor(taps, 2 * kSharedElements, planes_, threads);
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    const float* u = static_cast<const float*>(buffers[max_ ? 1 : 0]);
    float* out = static_cast<float*>(buffers[max_ ? 2 : 1]);
    const auto image = height_ * width_, windows = std::ssize(rows_) * std::ssize(columns_);
    ForEach(planes_, threads_, [&](int64_t i) {
      std::fill_n(out + i * image, image, 0.0f);
      if (max_) {
        GiveToLargest(x + i * image, u + i * windows, out + i * image);
      } else {
        Share(u + i * windows, out + i * image);
      }
    });
    return absl::OkStatus();
  }

 private:
  void GiveToLargest(const float* x, const float* u, float* out) const {
    for (const Taps& row : rows_) {
      for (const Taps& column : columns_) {
        const float cotangent = *u++;
        if (row.first == row.last || column.first == column.last) continue;
        // The first of several, and of the first NaN where there is one.
        int64_t best = (row.at + row.first * down_) * width_ + column.at + column.first * right_;
        float most = x[best];
        for (int64_t r = row.first; r < row.last; ++r) {
          const int64_t line = (row.at + r * down_) * width_ + column.at;
          for (int64_t s = column.first; s < column.last; ++s) {
            const float value = x[line + s * right_];
            const bool beats = most < value || (value != value && most == most);
            most = beats ? value : most;
            best = beats ? line + s * right_ : best;
          }
        }
        out[best] += cotangent;
      }
    }
  }

  void Share(const float* u, float* out) const {
    for (const Taps& row : rows_) {
      for (const Taps& column : columns_) {
        const float share = *u++ / (row.counted * column.counted);
        for (int64_t r = row.first; r < row.last; ++r) {
          float* const line = out + (row.at + r) * width_ + column.at;
          for (int64_t s = column.first; s < column.last; ++s) line[s] += share;
        }
      }
    }
  }

  const bool max_;
  const int64_t planes_, height_, width_;
  const int64_t down_, right_;  // dilations, which are one for a mean
  const std::vector<Taps> rows_, columns_;
  int threads_;
};

// Blocked where x of a maximum is, else row-major.
std::optional<Layout> PoolGradLayout(const LayoutQuery& query) {
  const Node& node = query.node();
  const Layout x = query.operand(0);
  const bool blocked = node.operands.size() == 2 && x.blocked() && x.block % Simd().lanes == 0 && !x.IsPadded();
  return blocked ? Layout::Blocked(query.dims(), x.block) : Layout::RowMajor(query.dims());
}

absl::StatusOr<bool> PlanPoolGrad(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const TensorType& type = node.outputs[0];
  if (type.dtype != DType::kFloat32) return false;
  const Layout layout = lowering.LayoutOf(group, {id, 0});
  std::vector<BufferUse> uses;
  for (Value operand : node.operands) {
    const Shape& dims = graph.type(operand).shape;
    ASSIGN_OR_RETURN(
        uses.emplace_back(),
        lowering.ReadAs(operand, layout.blocked() ? Layout::Blocked(dims, layout.block) : Layout::RowMajor(dims)));
  }
  uses.push_back(Lowering::Write(lowering.Define(Value{id, 0}, layout).buffer));
  const bool max = node.operands.size() == 2, ceil_mode = Int(node, "ceil_mode") != 0;
  const PoolProblem problem = PoolProblemOf(node, max, graph.type(node.operands.back()).shape);
  KernelPtr kernel;
  if (layout.blocked()) {
    kernel = std::make_unique<BlockedMaxPoolGradKernel>(problem, layout, lowering.threads());
  } else {
    kernel = std::make_unique<PoolGradKernel>(problem, type.shape, ceil_mode, lowering.threads());
  }
  lowering.Emit(std::move(kernel), uses, node.op->name);
  return true;
}

}  // namespace

KernelEntry PoolGradEntry() {
  return {.ops = {},
          .derived = {"max_pool2d_grad_x", "avg_pool2d_grad_x"},
          .plan = PlanPoolGrad,
          .layout = PoolGradLayout,
          .version = 2};
}

}  // namespace rewright::cpu
