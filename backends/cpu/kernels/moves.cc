// Operators that move elements and are no views: copies by strides.
#include <algorithm>

#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// ---- channels and points exchanged: two views with the block's rows and columns as axes of their own

absl::StatusOr<bool> PlanDepthSpace(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value x = node.operands[0];
  ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(x));
  const int64_t b = Int(node, "block");
  const Shape& dims = graph.type(x).shape;
  const std::vector<int64_t>& s = place.layout.strides;
  Layout from;
  if (node.op == ops::SpaceToDepth()) {
    from.dims = {dims[0], b, b, dims[1], dims[2] / b, dims[3] / b};
    from.strides = {s[0], s[2], s[3], s[1], s[2] * b, s[3] * b};
  } else {
    const int64_t depth = dims[1] / (b * b);
    const bool channel_first = Int(node, "channel_first") != 0;
    const int64_t channel = (channel_first ? b * b : 1) * s[1], column = (channel_first ? 1 : depth) * s[1];
    from.dims = {dims[0], depth, dims[2], b, dims[3], b};
    from.strides = {s[0], channel, s[2], column * b, s[3], column};
  }
  const int result = lowering.Define({id, 0}, Layout::RowMajor(node.outputs[0].shape)).buffer;
  lowering.EmitCopy({place.buffer, from}, {result, Layout::RowMajor(from.dims)}, graph.type(x).dtype, node.op->name);
  return true;
}

// ---- a value that may have been in a second tier of memory: a copy, as it lies. Where there is such a tier,
// runtime/offload puts copies there and back in the place of this one.

// All bytes between the first element and the last are the tensor's, or padding.
bool FillsItsSpan(const Layout& layout) { return WithPadding(layout).IsDense(); }

Layout FetchedLayout(const Layout& from) { return FillsItsSpan(from) ? from : Layout::RowMajor(from.dims); }

std::optional<Layout> FetchLayout(const LayoutQuery& query) { return FetchedLayout(query.operand(0)); }

absl::StatusOr<bool> PlanFetch(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Value x = lowering.graph().node(id).operands[0];
  ASSIGN_OR_RETURN(const Place found, lowering.Find(x));
  ASSIGN_OR_RETURN(const Place from, lowering.FindAs(x, FetchedLayout(found.layout)));
  const Place to = lowering.Define({id, 0}, from.layout);
  // Its readers get the layout that x has, so their kernels are those that read x itself.
  const Layout line = Layout::RowMajor({from.layout.Span()});
  lowering.EmitCopy({from.buffer, line}, {to.buffer, line}, lowering.graph().type(x).dtype, "fetch");
  return true;
}

// ---- padding: what lies around the operand is written axis by axis, then the operand copied

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

// Blocks stay where no channels are added, and what fills the last one stays zero.
Layout PaddedLayout(const Node& pad, const Layout& from) {
  const Shape& dims = pad.outputs[0].shape;
  const bool keeps_zeros = !from.IsPadded() || Real(pad, "value") == 0;
  const bool blocked = from.blocked() && keeps_zeros && Ints(pad, "before")[1] == 0 && Ints(pad, "after")[1] == 0;
  return blocked ? Layout::Blocked(dims, from.block) : Layout::RowMajor(dims);
}

std::optional<Layout> PadLayout(const LayoutQuery& query) {
  if (query.node().op == ops::DynamicUpdateSlice()) return Layout::RowMajor(query.dims());
  if (!OnlyAdds(query.node())) return std::nullopt;
  return PaddedLayout(query.node(), query.operand(0));
}

absl::StatusOr<bool> PlanPad(Lowering& lowering, const FusedGroup& group) {
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
  const int value = lowering.AddConstant(Tensor::Scalar(dtype, Real(node, "value")));
  const std::vector<int64_t>&before = Ints(node, "before"), &after = Ints(node, "after");
  const Shape whole = WithPadding(to).dims;
  int64_t offset = 0;
  for (size_t k = 0; k < before.size(); ++k) {
    if (to.blocked() && k == 1) continue;
    for (const auto& [count, at] : {std::pair(before[k], int64_t{0}), std::pair(after[k], whole[k] - after[k])}) {
      if (count == 0) continue;
      Shape slab = whole;
      slab[k] = count;
      lowering.EmitCopy({value, {slab, std::vector<int64_t>(slab.size(), 0)}}, {result, {slab, to.strides, to.block}},
                        dtype, "pad", 0, at * to.strides[k]);
    }
    offset += before[k] * to.strides[k];
  }
  const Layout from = WithPadding(place.layout);
  lowering.EmitCopy({place.buffer, from}, {result, {from.dims, to.strides, to.block}}, dtype, "pad", 0, offset);
  return true;
}

// ---- updates: what is replaced is copied over the operand, or over a copy of it

// Buffers: the update, a start for each axis (i32 or i64), and the row-major tensor in which the window lies.
class UpdateSliceKernel : public Kernel {
 public:
  UpdateSliceKernel(const Layout& update, const Layout& whole, std::vector<DType> starts, size_t element, int threads)
      : window_(update.dims), whole_(whole), starts_(std::move(starts)), element_(static_cast<int64_t>(element)) {
    copy_ = MakeCopyKernel(update, 0, {update.dims, whole.strides}, 0, element, threads);
  }

  absl::Status Run(void* const* buffers, RunContext& context) const override {
    int64_t offset = 0;
    for (size_t axis = 0; axis < starts_.size(); ++axis) {
      const void* const at = buffers[1 + axis];
      const int64_t start =
          starts_[axis] == DType::kInt64 ? *static_cast<const int64_t*>(at) : *static_cast<const int32_t*>(at);
      const int64_t last = whole_.dims[axis] - window_[axis];
      offset += std::max<int64_t>(0, std::min(start, last)) * whole_.strides[axis];
    }
    void* const ends[] = {buffers[0], static_cast<char*>(buffers[1 + starts_.size()]) + offset * element_};
    return copy_->Run(ends, context);
  }

 private:
  const Shape window_;
  const Layout whole_;
  const std::vector<DType> starts_;
  const int64_t element_;
  KernelPtr copy_;
};

// The memory of the operand where the result may be written over it; -1 where not.
absl::StatusOr<int> MemoryToUpdate(Lowering& lowering, Value x, Value update, Value out, const Layout& layout) {
  if (lowering.IsConstant(x) || x == update) return -1;
  const bool at_once = lowering.graph().mode() == Mode::kInference;  // in training states change at the end of a run
  if (at_once && lowering.NextValueOf(out, layout) == x) return lowering.StateBuffer(x);
  ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(x));
  return lowering.CanOverwrite(x, place, out, layout) ? place.buffer : -1;
}

absl::StatusOr<bool> PlanUpdateSlice(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value x = node.operands[0], update = node.operands[1], out{id, 0};
  const TensorType& type = graph.type(out);
  const Layout layout = Layout::RowMajor(type.shape);
  std::vector<DType> starts;
  for (size_t k = 2; k < node.operands.size(); ++k) starts.push_back(graph.type(node.operands[k]).dtype);
  const auto is_read = [](DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; };
  if (!std::all_of(starts.begin(), starts.end(), is_read)) return false;

  ASSIGN_OR_RETURN(const Place from, lowering.FindPlain(update));
  ASSIGN_OR_RETURN(int buffer, MemoryToUpdate(lowering, x, update, out, layout));
  if (buffer >= 0) {
    lowering.DefineAt(out, buffer, layout);
  } else {
    ASSIGN_OR_RETURN(const Place old, lowering.FindRowMajor(x));
    buffer = lowering.Define(out, layout).buffer;
    lowering.EmitCopy(old, {buffer, layout}, type.dtype, "copy");
  }
  std::vector<BufferUse> uses = {Lowering::Read(from.buffer)};
  for (size_t k = 2; k < node.operands.size(); ++k) {
    ASSIGN_OR_RETURN(uses.emplace_back(), lowering.ReadRowMajor(node.operands[k]));
  }
  uses.push_back(Lowering::Update(buffer));
  lowering.Emit(std::make_unique<UpdateSliceKernel>(from.layout, layout, std::move(starts), DTypeSize(type.dtype),
                                                    lowering.threads()),
                std::move(uses), node.op->name);
  return true;
}

// Both put a tensor into another one.
absl::StatusOr<bool> PlanPadOrUpdate(Lowering& lowering, const FusedGroup& group) {
  const Node& node = lowering.graph().node(group.group.nodes[0]);
  return node.op == ops::Pad() ? PlanPad(lowering, group) : PlanUpdateSlice(lowering, group);
}

}  // namespace

KernelEntry DepthSpaceEntry() { return {.ops = {ops::DepthToSpace(), ops::SpaceToDepth()}, .plan = PlanDepthSpace}; }
KernelEntry FetchEntry() { return {.ops = {ops::Fetch()}, .plan = PlanFetch, .layout = FetchLayout}; }
KernelEntry PadEntry() {
  return {.ops = {ops::Pad(), ops::DynamicUpdateSlice()}, .plan = PlanPadOrUpdate, .layout = PadLayout, .version = 4};
}

}  // namespace rewright::cpu
