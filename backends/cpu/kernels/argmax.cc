// The index of the largest of f32 along an axis: the first of several, and of the first NaN where there is one.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kChunk = 256;    // columns that are searched together
constexpr int64_t kGrain = 16384;  // elements below which one thread does everything

// Buffers: x [outer, size, inner], out [outer, inner]; both row-major.
class ArgmaxKernel : public Kernel {
 public:
  ArgmaxKernel(int64_t outer, int64_t size, int64_t inner, int threads)
      : outer_(outer), size_(size), inner_(inner), chunks_((inner + kChunk - 1) / kChunk) {
    threads_ = outer * size * inner < kGrain ? 1 : static_cast<int>(std::min<int64_t>(threads, outer * chunks_));
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    int64_t* out = static_cast<int64_t*>(buffers[1]);
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t unit = 0; unit < outer_ * chunks_; ++unit) {
      const int64_t i = unit / chunks_, first = unit % chunks_ * kChunk;
      if (inner_ == 1) {
        out[i] = Row(x + i * size_);
      } else {
        Columns(x + i * size_ * inner_ + first, std::min(kChunk, inner_ - first), out + i * inner_ + first);
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t Row(const float* x) const {
    const float most = Simd().row_max(x, size_);
    const auto found = [=](float value) { return value == most || (value != value && most != most); };
    return std::find_if(x, x + size_, found) - x;
  }

  void Columns(const float* x, int64_t count, int64_t* out) const {
    float most[kChunk];
    std::copy(x, x + count, most);
    std::fill(out, out + count, 0);
    for (int64_t k = 1; k < size_; ++k) {
      const float* const row = x + k * inner_;
      for (int64_t i = 0; i < count; ++i) {
        const bool beats = most[i] < row[i] || (row[i] != row[i] && most[i] == most[i]);
        most[i] = beats ? row[i] : most[i];
        out[i] = beats ? k : out[i];
      }
    }
  }

  const int64_t outer_, size_, inner_, chunks_;
  int threads_;
};

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const TensorType& type = graph.type(node.operands[0]);
  if (type.dtype != DType::kFloat32) return false;
  ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(node.operands[0]));
  const size_t axis = Int(node, "axis");
  int64_t outer = 1, inner = 1;
  for (size_t k = 0; k < axis; ++k) outer *= type.shape[k];
  for (size_t k = axis + 1; k < type.shape.size(); ++k) inner *= type.shape[k];
  const int result = lowering.Define(Value{id, 0}, Layout::RowMajor(node.outputs[0].shape)).buffer;
  lowering.Emit(std::make_unique<ArgmaxKernel>(outer, type.shape[axis], inner, lowering.threads()),
                {Lowering::Read(place.buffer), Lowering::Write(result)},
                absl::StrCat(node.op->name, " (", Simd().name, ")"));
  return true;
}

}  // namespace

KernelEntry ArgmaxEntry() { return {.ops = {ops::Argmax()}, .plan = Plan}; }

}  // namespace rewright::cpu
