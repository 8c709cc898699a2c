// Operators along one axis that keep the others: the index of the largest of f32, which is the first of several, and of
// the first NaN where there is one; running sums, one pass instead of a sum for every position.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kChunk = 256;  // columns that are walked together

// Walks the columns of row-major x [outer, size, inner] in chunks that threads share.
class ColumnsKernel : public Kernel {
 public:
  ColumnsKernel(const AxisSizes& sizes, int threads) : sizes_(sizes), chunks_((sizes.inner + kChunk - 1) / kChunk) {
    threads_ = ThreadsFor(sizes.outer * sizes.size * sizes.inner, kSharedElements, sizes.outer * chunks_, threads);
  }

 protected:
  // Calls f(i, first, count) for the columns first..first+count-1 of part i of x.
  template <typename F>
  void ForChunks(const F& f) const {
    ForEach(sizes_.outer * chunks_, threads_, [&](int64_t unit) {
      const int64_t first = unit % chunks_ * kChunk;
      f(unit / chunks_, first, std::min(kChunk, sizes_.inner - first));
    });
  }

  const AxisSizes sizes_;

 private:
  const int64_t chunks_;
  int threads_;
};

// Buffers: x, out [outer, inner].
class ArgmaxKernel : public ColumnsKernel {
 public:
  using ColumnsKernel::ColumnsKernel;

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    int64_t* out = static_cast<int64_t*>(buffers[1]);
    ForChunks([&](int64_t i, int64_t first, int64_t count) {
      if (sizes_.inner == 1) {
        out[i] = Row(x + i * sizes_.size);
      } else {
        Columns(x + i * sizes_.size * sizes_.inner + first, count, out + i * sizes_.inner + first);
      }
    });
    return absl::OkStatus();
  }

 private:
  int64_t Row(const float* x) const {
    const float most = Simd().row_max(x, sizes_.size);
    const auto found = [=](float value) { return value == most || (value != value && most != most); };
    return std::find_if(x, x + sizes_.size, found) - x;
  }

  void Columns(const float* x, int64_t count, int64_t* out) const {
    float most[kChunk];
    std::copy(x, x + count, most);
    std::fill(out, out + count, 0);
    for (int64_t k = 1; k < sizes_.size; ++k) {
      const float* const row = x + k * sizes_.inner;
      for (int64_t i = 0; i < count; ++i) {
        const bool beats = most[i] < row[i] || (row[i] != row[i] && most[i] == most[i]);
        most[i] = beats ? row[i] : most[i];
        out[i] = beats ? k : out[i];
      }
    }
  }
};

// Buffers: x, out like x. Sums of f32 are kept in f64, sums of integers wrap.
template <typename T>
class CumsumKernel : public ColumnsKernel {
 public:
  CumsumKernel(const AxisSizes& sizes, bool exclusive, bool reverse, int threads)
      : ColumnsKernel(sizes, threads), exclusive_(exclusive), reverse_(reverse) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const T* x = static_cast<const T*>(buffers[0]);
    T* out = static_cast<T*>(buffers[1]);
    ForChunks([&](int64_t i, int64_t first, int64_t count) {
      const int64_t start = i * sizes_.size * sizes_.inner + first;
      Columns(x + start, count, out + start);
    });
    return absl::OkStatus();
  }

 private:
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

  void Columns(const T* x, int64_t count, T* out) const {
    Sum sums[kChunk] = {};
    for (int64_t step = 0; step < sizes_.size; ++step) {
      const int64_t at = (reverse_ ? sizes_.size - 1 - step : step) * sizes_.inner;
      for (int64_t i = 0; i < count; ++i) {
        const Sum before = sums[i];
        sums[i] += static_cast<Sum>(x[at + i]);
        out[at + i] = static_cast<T>(exclusive_ ? before : sums[i]);
      }
    }
  }

  const bool exclusive_, reverse_;
};

absl::StatusOr<bool> PlanArgmax(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = lowering.graph().node(id);
  const TensorType& type = lowering.graph().type(node.operands[0]);
  if (type.dtype != DType::kFloat32) return false;
  const AxisSizes sizes = SizesAround(type.shape, Int(node, "axis"));
  RETURN_IF_ERROR(lowering.EmitRowMajor(id, std::make_unique<ArgmaxKernel>(sizes, lowering.threads()),
                                        absl::StrCat(node.op->name, " (", Simd().name, ")")));
  return true;
}

absl::StatusOr<bool> PlanCumsum(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = lowering.graph().node(id);
  const TensorType& type = lowering.graph().type(node.operands[0]);
  const auto make = [&](auto zero) -> KernelPtr {
    return std::make_unique<CumsumKernel<decltype(zero)>>(SizesAround(type.shape, Int(node, "axis")),
                                                          Int(node, "exclusive") != 0, Int(node, "reverse") != 0,
                                                          lowering.threads());
  };
  KernelPtr kernel;
  if (type.dtype == DType::kFloat32) kernel = make(0.0f);
  if (type.dtype == DType::kInt32) kernel = make(int32_t{0});
  if (type.dtype == DType::kInt64) kernel = make(int64_t{0});
  if (kernel == nullptr) return false;
  RETURN_IF_ERROR(lowering.EmitRowMajor(id, std::move(kernel), node.op->name));
  return true;
}

}  // namespace

KernelEntry ArgmaxEntry() { return {.ops = {ops::Argmax()}, .plan = PlanArgmax}; }
KernelEntry CumsumEntry() { return {.ops = {ops::Cumsum()}, .plan = PlanCumsum}; }

}  // namespace rewright::cpu
