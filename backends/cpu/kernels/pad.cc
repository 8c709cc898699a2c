// Padding: the result is filled, then the operand copied into it.
#include <algorithm>

#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

template <typename T>
class FillKernel : public Kernel {
 public:
  FillKernel(int64_t count, double value, int threads)
      : count_(count), value_(static_cast<T>(value)), threads_(count < 65536 ? 1 : threads) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    T* to = static_cast<T*>(buffers[0]);
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t i = 0; i < count_; ++i) to[i] = value_;
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
  const T value_;
  const int threads_;
};

// Sets `count` elements to `value`.
KernelPtr MakeFillKernel(int64_t count, DType dtype, double value, int threads) {
  return VisitDType(dtype, [&](auto t) -> KernelPtr {
    return std::make_unique<FillKernel<typename decltype(t)::Type>>(count, value, threads);
  });
}

// Adds elements around the operand and does nothing else: no entry cuts off, nothing comes between.
bool OnlyAdds(const Node& pad) {
  const auto all_of = [&](const char* list, const auto& test) {
    const std::vector<int64_t>& entries = Ints(pad, list);
    return std::all_of(entries.begin(), entries.end(), test);
  };
  const auto adds = [](int64_t entry) { return entry >= 0; };
  return all_of("before", adds) && all_of("after", adds) &&
         all_of("interior", [](int64_t entry) { return entry == 0; });
}

// Blocks stay where they are whole and no channels are added.
Layout PaddedLayout(const Node& pad, const Layout& from) {
  const Shape& dims = pad.outputs[0].shape;
  const bool blocked = from.blocked() && !from.IsPadded() && Ints(pad, "before")[1] == 0 && Ints(pad, "after")[1] == 0;
  return blocked ? Layout::Blocked(dims, from.block) : Layout::RowMajor(dims);
}

std::optional<Layout> PadLayout(const LayoutQuery& query) {
  if (!OnlyAdds(query.node())) return std::nullopt;
  return PaddedLayout(query.node(), query.operand(0));
}

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  if (!OnlyAdds(node)) return false;
  const Value x = node.operands[0], out{id, 0};
  ASSIGN_OR_RETURN(Place place, lowering.Find(x));
  const Layout to = lowering.LayoutOf(group, out);
  if (place.layout.blocked() && !to.blocked()) {
    ASSIGN_OR_RETURN(place, lowering.FindRowMajor(x));
  }
  const int result = lowering.Define(out, to).buffer;
  const DType dtype = graph.type(out).dtype;
  lowering.Emit(MakeFillKernel(to.Span(), dtype, Real(node, "value"), lowering.threads()), {Lowering::Write(result)},
                "pad");
  const std::vector<int64_t>& before = Ints(node, "before");
  int64_t offset = 0;
  for (size_t k = 0; k < before.size(); ++k) {
    if (!to.blocked() || k != 1) offset += before[k] * to.strides[k];
  }
  const Layout inner{graph.type(x).shape, to.strides, to.block};
  lowering.Emit(MakeCopyKernel(place.layout, 0, inner, offset, DTypeSize(dtype), lowering.threads()),
                {Lowering::Read(place.buffer), Lowering::Write(result)}, "pad");
  return true;
}

}  // namespace

KernelEntry PadEntry() { return {.ops = {ops::Pad()}, .plan = Plan, .layout = PadLayout}; }

}  // namespace rewright::cpu
