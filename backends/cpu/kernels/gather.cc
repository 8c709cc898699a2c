// Picking slices by index, and adding to slices by index.
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "core/base/status_macros.h"
#include "core/ir/index_range.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// An error where an index is outside the range. They are looked at once, however often they are used.
template <typename Index>
absl::Status CheckIndices(const IndexRange& range, const Index* indices, int64_t count) {
  const int64_t size = range.size();
  const Index low = static_cast<Index>(std::max<int64_t>(-size, std::numeric_limits<Index>::min()));
  const Index high = static_cast<Index>(std::min<int64_t>(size - 1, std::numeric_limits<Index>::max()));
  const auto outside = [=](Index index) { return index < low || index > high; };
  const Index* found = std::find_if(indices, indices + count, outside);
  return found == indices + count ? absl::OkStatus() : range.Error(found - indices, static_cast<int64_t>(*found));
}

// An index that may count from the end.
template <typename Index>
int64_t FromStart(Index index, int64_t size) {
  return index < 0 ? static_cast<int64_t>(index) + size : static_cast<int64_t>(index);
}

// x is [outer, range.size(), inner], `count` indices pick along the axis; negative ones count from the end. An index
// outside the range is an error.
template <typename Index>
class GatherKernel : public Kernel {
 public:
  GatherKernel(IndexRange range, int64_t outer, int64_t count, size_t slice_bytes, int threads)
      : range_(std::move(range)), outer_(outer), axis_(range_.size()), count_(count), slice_bytes_(slice_bytes) {
    const int64_t slices = outer * count;
    threads_ = ThreadsFor(slices * static_cast<int64_t>(slice_bytes), kSharedBytes, slices, threads);
  }
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const char* x = static_cast<const char*>(buffers[0]);
    const Index* indices = static_cast<const Index*>(buffers[1]);
    char* out = static_cast<char*>(buffers[2]);
    RETURN_IF_ERROR(CheckIndices(range_, indices, count_));
    ForEach(outer_ * count_, threads_, [&](int64_t i) {
      const int64_t index = FromStart(indices[i % count_], axis_);
      std::memcpy(out + static_cast<size_t>(i) * slice_bytes_,
                  x + static_cast<size_t>(i / count_ * axis_ + index) * slice_bytes_, slice_bytes_);
    });
    return absl::OkStatus();
  }

 private:
  const IndexRange range_;
  const int64_t outer_, axis_, count_;
  const size_t slice_bytes_;
  int threads_;
};

bool IsPlainIndex(const Graph& graph, const FusedGroup& group) {
  const DType indices = graph.type(graph.node(group.group.nodes[0]).operands[1]).dtype;
  return indices == DType::kInt32 || indices == DType::kInt64;
}

// The kernel that make(an index of their type, the range that they lie in) gives.
template <typename Make>
KernelPtr ForIndices(const Graph& graph, NodeId id, const Make& make) {
  const Node& node = graph.node(id);
  IndexRange range(graph, id, {.indices = 1, .indexed = 0, .axis = static_cast<int>(Int(node, "axis")), .wraps = true});
  if (graph.type(node.operands[1]).dtype == DType::kInt32) return make(int32_t{0}, std::move(range));
  return make(int64_t{0}, std::move(range));
}

absl::StatusOr<bool> PlanGather(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  if (!IsPlainIndex(graph, group)) return false;
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const TensorType& type = graph.type(node.operands[0]);
  const AxisSizes sizes = SizesAround(type.shape, Int(node, "axis"));
  const int64_t count = graph.type(node.operands[1]).num_elements();
  const size_t slice_bytes = static_cast<size_t>(sizes.inner) * DTypeSize(type.dtype);
  KernelPtr kernel = ForIndices(graph, id, [&](auto index, IndexRange range) -> KernelPtr {
    return std::make_unique<GatherKernel<decltype(index)>>(std::move(range), sizes.outer, count, slice_bytes,
                                                           lowering.threads());
  });
  RETURN_IF_ERROR(lowering.EmitRowMajor(id, std::move(kernel), node.op->name));
  return true;
}

// Buffers: x unless `start` is given, indices [count], updates [outer, count, inner], out [outer, size, inner], which
// may lie in the memory of x; all row-major. Each element of out is x's, or `start`, and then the updates in their
// order: threads have columns of their own.
template <typename T, typename Index>
class ScatterAddKernel : public Kernel {
 public:
  ScatterAddKernel(IndexRange range, const AxisSizes& shape, int64_t count, std::optional<T> start, int threads)
      : range_(std::move(range)), shape_(shape), count_(count), start_(start) {
    const int64_t elements = shape.outer * (shape.size + count) * shape.inner;
    threads_ = ThreadsFor(elements * static_cast<int64_t>(sizeof(T)), kSharedBytes, elements, threads);
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const T* x = start_ ? nullptr : static_cast<const T*>(*buffers++);
    const Index* indices = static_cast<const Index*>(buffers[0]);
    const T* updates = static_cast<const T*>(buffers[1]);
    T* out = static_cast<T*>(buffers[2]);
    RETURN_IF_ERROR(CheckIndices(range_, indices, count_));
#pragma omp parallel num_threads(threads_) if (threads_ > 1)
    {
      const int64_t all = omp_get_num_threads(), me = omp_get_thread_num();
      const int64_t elements = shape_.outer * shape_.size * shape_.inner;
      const int64_t begin = elements * me / all, end = elements * (me + 1) / all;
      if (start_) {
        std::fill(out + begin, out + end, *start_);
      } else if (x != out) {
        std::copy(x + begin, x + end, out + begin);
      }
#pragma omp barrier
      Add(indices, updates, out, shape_.inner * me / all, shape_.inner * (me + 1) / all);
    }
    return absl::OkStatus();
  }

 private:
  // The columns begin..end-1.
  void Add(const Index* indices, const T* updates, T* out, int64_t begin, int64_t end) const {
    for (int64_t o = 0; o < shape_.outer; ++o) {
      for (int64_t k = 0; k < count_; ++k) {
        T* to = out + (o * shape_.size + FromStart(indices[k], shape_.size)) * shape_.inner;
        const T* from = updates + (o * count_ + k) * shape_.inner;
        for (int64_t i = begin; i < end; ++i) to[i] = Sum(to[i], from[i]);
      }
    }
  }
  static T Sum(T a, T b) {  // integers wrap
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    } else {
      return a + b;
    }
  }

  const IndexRange range_;
  const AxisSizes shape_;
  const int64_t count_;
  const std::optional<T> start_;
  int threads_;
};

// The number that all elements of an expanded constant are.
const Tensor* UniformOf(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  return node.op == ops::Expand() ? SingleConstant(graph, node.operands[0]) : nullptr;
}

template <typename T>
absl::StatusOr<bool> PlanScatter(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value x = node.operands[0], indices = node.operands[1], updates = node.operands[2], out{id, 0};
  const Layout layout = Layout::RowMajor(graph.type(out).shape);
  std::optional<T> start;
  std::vector<BufferUse> buffers;
  int over = -1;
  if (const Tensor* uniform = UniformOf(graph, x); uniform != nullptr) {
    start = std::is_integral_v<T> ? static_cast<T>(uniform->AtInt(0)) : static_cast<T>(uniform->At(0));
  } else {
    ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(x));
    buffers.push_back(Lowering::Read(place.buffer));
    if (x != updates && !lowering.IsConstant(x) && lowering.CanOverwrite(x, place, out, layout)) over = place.buffer;
  }
  for (Value operand : {indices, updates}) {
    ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadRowMajor(operand));
  }
  buffers.push_back(Lowering::Write(lowering.DefineOver(out, layout, over)));
  const AxisSizes shape = SizesAround(layout.dims, Int(node, "axis"));
  KernelPtr kernel = ForIndices(graph, id, [&](auto index, IndexRange range) -> KernelPtr {
    return std::make_unique<ScatterAddKernel<T, decltype(index)>>(
        std::move(range), shape, graph.type(indices).num_elements(), start, lowering.threads());
  });
  lowering.Emit(std::move(kernel), std::move(buffers), node.op->name);
  return true;
}

absl::StatusOr<bool> PlanScatterAdd(Lowering& lowering, const FusedGroup& group) {
  if (!IsPlainIndex(lowering.graph(), group)) return false;
  switch (lowering.graph().type(group.group.outputs[0]).dtype) {
    case DType::kFloat32: return PlanScatter<float>(lowering, group);
    case DType::kFloat64: return PlanScatter<double>(lowering, group);
    case DType::kInt32: return PlanScatter<int32_t>(lowering, group);
    case DType::kInt64: return PlanScatter<int64_t>(lowering, group);
    default: return false;
  }
}

}  // namespace

KernelEntry GatherEntry() { return {.ops = {ops::Gather()}, .plan = PlanGather}; }
KernelEntry ScatterAddEntry() { return {.ops = {ops::ScatterAdd()}, .plan = PlanScatterAdd}; }

}  // namespace rewright::cpu
