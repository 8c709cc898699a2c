// Picking slices by index.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ir/index_range.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

template <typename Index>
class GatherKernel : public Kernel {
 public:
  GatherKernel(IndexRange range, int64_t outer, int64_t count, size_t slice_bytes, int threads)
      : range_(std::move(range)), outer_(outer), axis_(range_.size()), count_(count), slice_bytes_(slice_bytes) {
    threads_ = static_cast<size_t>(outer * count) * slice_bytes < 65536 ? 1 : threads;
  }
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const char* x = static_cast<const char*>(buffers[0]);
    const Index* indices = static_cast<const Index*>(buffers[1]);
    char* out = static_cast<char*>(buffers[2]);
    RETURN_IF_ERROR(Check(indices));
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t i = 0; i < outer_ * count_; ++i) {
      int64_t index = static_cast<int64_t>(indices[i % count_]) % axis_;
      if (index < 0) index += axis_;
      std::memcpy(out + static_cast<size_t>(i) * slice_bytes_,
                  x + static_cast<size_t>(i / count_ * axis_ + index) * slice_bytes_, slice_bytes_);
    }
    return absl::OkStatus();
  }

 private:
  // The indices are looked at once, however often they are used.
  absl::Status Check(const Index* indices) const {
    const Index low = static_cast<Index>(std::max<int64_t>(-axis_, std::numeric_limits<Index>::min()));
    const Index high = static_cast<Index>(std::min<int64_t>(axis_ - 1, std::numeric_limits<Index>::max()));
    const auto outside = [=](Index index) { return index < low || index > high; };
    const Index* found = std::find_if(indices, indices + count_, outside);
    return found == indices + count_ ? absl::OkStatus() : range_.Error(found - indices, static_cast<int64_t>(*found));
  }

  const IndexRange range_;
  const int64_t outer_, axis_, count_;
  const size_t slice_bytes_;
  int threads_;
};

// x is [outer, range.size(), inner], `count` indices pick along the axis; negative ones count from the end. An index
// outside the range is an error.
KernelPtr MakeGatherKernel(IndexRange range, int64_t outer, int64_t inner, int64_t count, size_t element_bytes,
                           DType index_type, int threads) {
  const size_t slice_bytes = static_cast<size_t>(inner) * element_bytes;
  if (index_type == DType::kInt32) {
    return std::make_unique<GatherKernel<int32_t>>(std::move(range), outer, count, slice_bytes, threads);
  }
  return std::make_unique<GatherKernel<int64_t>>(std::move(range), outer, count, slice_bytes, threads);
}

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value x = node.operands[0], indices = node.operands[1], out{id, 0};
  ASSIGN_OR_RETURN(const Place x_place, lowering.FindRowMajor(x));
  ASSIGN_OR_RETURN(const Place index_place, lowering.FindRowMajor(indices));
  const Shape& dims = graph.type(x).shape;
  const size_t axis = Int(node, "axis");
  int64_t outer = 1, inner = 1;
  for (size_t k = 0; k < axis; ++k) outer *= dims[k];
  for (size_t k = axis + 1; k < dims.size(); ++k) inner *= dims[k];
  const int result = lowering.Define(out, Layout::RowMajor(graph.type(out).shape)).buffer;
  IndexRange range(graph, id, {.indices = 1, .indexed = 0, .axis = static_cast<int>(axis), .wraps = true});
  lowering.Emit(MakeGatherKernel(std::move(range), outer, inner, graph.type(indices).num_elements(),
                                 DTypeSize(graph.type(x).dtype), graph.type(indices).dtype, lowering.threads()),
                {Lowering::Read(x_place.buffer), Lowering::Read(index_place.buffer), Lowering::Write(result)},
                node.op->name);
  return true;
}

}  // namespace

KernelEntry GatherEntry() { return {.ops = {ops::Gather()}, .plan = Plan}; }

}  // namespace rewright::cpu
