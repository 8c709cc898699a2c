// Reductions of f32 over any axes of any layout.
#include <omp.h>

#include <algorithm>
#include <limits>

#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin };

struct ReduceAxis {
  int64_t size, x, out;
  bool reduced;
};

constexpr int64_t kChunk = 256;  // kept elements that are accumulated together
constexpr int64_t kGrain = 16384;

class ReduceKernel : public Kernel {
 public:
  // `axes` by descending stride in x; merged.
  ReduceKernel(Reduction reduction, std::vector<ReduceAxis> axes, int threads) : reduction_(reduction) {
    // The innermost axis is either reduced (rows) or kept (columns).
    if (axes.empty()) axes.push_back({1, 1, 0, true});
    rows_ = axes.back().reduced;
    inner_ = axes.back();
    axes.pop_back();
    int64_t reduced = rows_ ? inner_.size : 1;
    for (const ReduceAxis& axis : axes) {
      (axis.reduced ? reduced_ : kept_).push_back(axis);
      (axis.reduced ? reduced : kept_count_) *= axis.size;
      if (axis.reduced) reduced_count_ *= axis.size;
    }
    scale_ = reduction == Reduction::kMean ? 1.0f / static_cast<float>(reduced) : 1.0f;
    chunks_ = rows_ ? 1 : (inner_.size + kChunk - 1) / kChunk;
    const int64_t work = kept_count_ * reduced_count_ * inner_.size;
    threads_ = work < kGrain ? 1 : static_cast<int>(std::min<int64_t>(threads, kept_count_ * chunks_));
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    float* out = static_cast<float*>(buffers[1]);
    const int64_t units = kept_count_ * chunks_;
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t unit = 0; unit < units; ++unit) {
      int64_t rest = unit / chunks_, from = 0, to = 0;
      for (size_t k = kept_.size(); k-- > 0;) {
        const int64_t index = rest % kept_[k].size;
        rest /= kept_[k].size;
        from += index * kept_[k].x;
        to += index * kept_[k].out;
      }
      if (rows_) {
        out[to] = Row(x + from);
      } else {
        Columns(x + from, out + to, unit % chunks_ * kChunk);
      }
    }
    return absl::OkStatus();
  }

 private:
  // Calls f(offset) for every position of the outer reduced axes.
  template <typename F>
  void ForReduced(const F& f) const {
    int64_t index[kMaxAxes] = {};
    int64_t offset = 0;
    for (int64_t i = 0; i < reduced_count_; ++i) {
      f(offset);
      for (size_t k = reduced_.size(); k-- > 0;) {
        offset += reduced_[k].x;
        if (++index[k] < reduced_[k].size) break;
        offset -= reduced_[k].x * reduced_[k].size;
        index[k] = 0;
      }
    }
  }

  float Row(const float* x) const {
    const SimdTable& simd = Simd();
    float result = Start();
    ForReduced([&](int64_t offset) {
      if (inner_.x != 1) {
        for (int64_t i = 0; i < inner_.size; ++i) result = Join(result, x[offset + i * inner_.x]);
        return;
      }
      const float* row = x + offset;
      switch (reduction_) {
        case Reduction::kSum:
        case Reduction::kMean: result += simd.row_sum(row, inner_.size); break;
        case Reduction::kMax: result = Join(result, simd.row_max(row, inner_.size)); break;
        case Reduction::kMin: result = Join(result, simd.row_min(row, inner_.size)); break;
      }
    });
    return reduction_ == Reduction::kMean ? result * scale_ : result;
  }

  void Columns(const float* x, float* out, int64_t first) const {
    const SimdTable& simd = Simd();
    const int64_t count = std::min(kChunk, inner_.size - first);
    float sum[kChunk];
    std::fill(sum, sum + count, Start());
    const TileFn join = simd.f32[reduction_ == Reduction::kMax   ? kTileMax
                                 : reduction_ == Reduction::kMin ? kTileMin
                                                                 : kTileAdd];
    ForReduced([&](int64_t offset) {
      if (inner_.x == 1) {
        join(sum, sum, x + offset + first, nullptr, count);
      } else {
        for (int64_t i = 0; i < count; ++i) sum[i] = Join(sum[i], x[offset + (first + i) * inner_.x]);
      }
    });
    for (int64_t i = 0; i < count; ++i) out[(first + i) * inner_.out] = sum[i] * scale_;
  }

  float Start() const {
    switch (reduction_) {
      case Reduction::kMax: return -std::numeric_limits<float>::infinity();
      case Reduction::kMin: return std::numeric_limits<float>::infinity();
      default: return 0;
    }
  }
  float Join(float a, float b) const {
    switch (reduction_) {
      case Reduction::kMax: return a > b || a != a ? a : b;
      case Reduction::kMin: return a < b || a != a ? a : b;
      default: return a + b;
    }
  }

  const Reduction reduction_;
  ReduceAxis inner_;
  bool rows_ = true;
  std::vector<ReduceAxis> kept_, reduced_;
  int64_t kept_count_ = 1, reduced_count_ = 1, chunks_ = 1;
  float scale_ = 1;
  int threads_ = 1;
};

// Buffers: x, out. out[kept..] = reduction of x over the axes that `reduced` marks. `x` is not padded; `out` has the
// sizes of x with 1 where reduced (it may be blocked where x is, else plain).
KernelPtr MakeReduceKernel(Reduction reduction, const Layout& x, const std::vector<bool>& reduced, const Layout& out,
                           int threads) {
  CHECK(!x.IsPadded() && (out.block == 0 || out.block == x.block)) << x.ToString() << " " << out.ToString();
  std::vector<ReduceAxis> axes;
  for (size_t k = 0; k < x.dims.size(); ++k) {
    const bool gone = reduced[k];
    if (x.block == 0 || k != 1) {
      axes.push_back({x.dims[k], x.strides[k], gone ? 0 : out.strides[k], gone});
      continue;
    }
    const int64_t outer = out.block != 0 ? out.strides[k] : out.strides[k] * x.block;
    axes.push_back({x.dims[k] / x.block, x.strides[k], gone ? 0 : outer, gone});
    axes.push_back({x.block, 1, gone ? 0 : out.block != 0 ? 1 : out.strides[k], gone});
  }
  std::erase_if(axes, [](const ReduceAxis& axis) { return axis.size == 1; });
  std::stable_sort(axes.begin(), axes.end(), [](const ReduceAxis& a, const ReduceAxis& b) { return a.x > b.x; });
  std::vector<ReduceAxis> merged;
  for (const ReduceAxis& axis : axes) {
    if (!merged.empty() && merged.back().reduced == axis.reduced && merged.back().x == axis.x * axis.size &&
        merged.back().out == axis.out * axis.size) {
      merged.back() = {merged.back().size * axis.size, axis.x, axis.out, axis.reduced};
    } else {
      merged.push_back(axis);
    }
  }
  return std::make_unique<ReduceKernel>(reduction, std::move(merged), threads);
}

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value x = node.operands[0], out{id, 0};
  if (graph.type(out).dtype != DType::kFloat32) return false;
  ASSIGN_OR_RETURN(Place place, lowering.Find(x));
  if (place.layout.IsPadded()) {
    ASSIGN_OR_RETURN(place, lowering.FindRowMajor(x));
  }
  Shape kept = graph.type(x).shape;
  std::vector<bool> reduced(kept.size(), false);
  for (int64_t axis : Ints(node, "axes")) {
    reduced[axis] = true;
    kept[axis] = 1;
  }
  const Reduction reduction = node.op == ops::ReduceSum()    ? Reduction::kSum
                              : node.op == ops::ReduceMean() ? Reduction::kMean
                              : node.op == ops::ReduceMax()  ? Reduction::kMax
                                                             : Reduction::kMin;
  const int result = lowering.Define(out, Layout::RowMajor(graph.type(out).shape)).buffer;
  lowering.Emit(MakeReduceKernel(reduction, place.layout, reduced, Layout::RowMajor(kept), lowering.threads()),
                {Lowering::Read(place.buffer), Lowering::Write(result)}, node.op->name);
  return true;
}

}  // namespace

KernelEntry ReduceEntry() {
  return {.ops = {ops::ReduceSum(), ops::ReduceMean(), ops::ReduceMax(), ops::ReduceMin()}, .plan = Plan};
}

}  // namespace rewright::cpu
