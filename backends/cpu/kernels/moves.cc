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

}  // namespace

KernelEntry DepthSpaceEntry() { return {.ops = {ops::DepthToSpace(), ops::SpaceToDepth()}, .plan = PlanDepthSpace}; }
KernelEntry FetchEntry() { return {.ops = {ops::Fetch()}, .plan = PlanFetch, .layout = FetchLayout}; }
KernelEntry PadEntry() { return {.ops = {ops::Pad()}, .plan = PlanPad, .layout = PadLayout, .version = 3}; }

}  // namespace rewright::cpu
