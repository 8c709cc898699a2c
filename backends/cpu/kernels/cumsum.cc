// Running sums along an axis, one pass instead of a sum for every position.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kChunk = 256;    // columns that are summed together
constexpr int64_t kGrain = 16384;  // elements below which one thread does everything

// Buffers: x [outer, size, inner], out [outer, size, inner]; both row-major. Sums of f32 are kept in f64, sums of
// integers wrap.
template <typename T>
class CumsumKernel : public Kernel {
 public:
  CumsumKernel(int64_t outer, int64_t size, int64_t inner, bool exclusive, bool reverse, int threads)
      : outer_(outer),
        size_(size),
        inner_(inner),
        chunks_((inner + kChunk - 1) / kChunk),
        exclusive_(exclusive),
        reverse_(reverse) {
    threads_ = outer * size * inner < kGrain ? 1 : static_cast<int>(std::min<int64_t>(threads, outer * chunks_));
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const T* x = static_cast<const T*>(buffers[0]);
    T* out = static_cast<T*>(buffers[1]);
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t unit = 0; unit < outer_ * chunks_; ++unit) {
      const int64_t first = unit % chunks_ * kChunk;
      const int64_t start = unit / chunks_ * size_ * inner_ + first;
      Columns(x + start, std::min(kChunk, inner_ - first), out + start);
    }
    return absl::OkStatus();
  }

 private:
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

  void Columns(const T* x, int64_t count, T* out) const {
    Sum sums[kChunk] = {};
    for (int64_t step = 0; step < size_; ++step) {
      const int64_t at = (reverse_ ? size_ - 1 - step : step) * inner_;
      for (int64_t i = 0; i < count; ++i) {
        const Sum before = sums[i];
        sums[i] += static_cast<Sum>(x[at + i]);
        out[at + i] = static_cast<T>(exclusive_ ? before : sums[i]);
      }
    }
  }

  const int64_t outer_, size_, inner_, chunks_;
  const bool exclusive_, reverse_;
  int threads_;
};

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const TensorType& type = graph.type(node.operands[0]);
  ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(node.operands[0]));
  const size_t axis = Int(node, "axis");
  int64_t outer = 1, inner = 1;
  for (size_t k = 0; k < axis; ++k) outer *= type.shape[k];
  for (size_t k = axis + 1; k < type.shape.size(); ++k) inner *= type.shape[k];
  const auto make = [&](auto zero) -> KernelPtr {
    return std::make_unique<CumsumKernel<decltype(zero)>>(outer, type.shape[axis], inner, Int(node, "exclusive") != 0,
                                                          Int(node, "reverse") != 0, lowering.threads());
  };
  KernelPtr kernel;
  if (type.dtype == DType::kFloat32) kernel = make(0.0f);
  if (type.dtype == DType::kInt32) kernel = make(int32_t{0});
  if (type.dtype == DType::kInt64) kernel = make(int64_t{0});
  if (kernel == nullptr) return false;
  const int result = lowering.Define(Value{id, 0}, Layout::RowMajor(type.shape)).buffer;
  lowering.Emit(std::move(kernel), {Lowering::Read(place.buffer), Lowering::Write(result)}, node.op->name);
  return true;
}

}  // namespace

KernelEntry CumsumEntry() { return {.ops = {ops::Cumsum()}, .plan = Plan}; }

}  // namespace rewright::cpu
