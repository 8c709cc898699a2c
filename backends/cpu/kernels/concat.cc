// Concatenation: operands are written straight into the result where they lie in one piece, else copied.
#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// Blocked where all operands are, with whole blocks. One point per image is row-major and blocked at once.
std::optional<Layout> ConcatLayout(const LayoutQuery& query) {
  const int64_t block = query.operand(0).block;
  for (size_t k = 0; k < query.node().operands.size(); ++k) {
    const Layout layout = query.operand(k);
    if (layout.block != block || layout.IsPadded()) return std::nullopt;
  }
  return block > 0 ? std::optional(Layout::Blocked(query.dims(), block)) : std::nullopt;
}

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const Value out{id, 0};
  const Shape& dims = graph.type(out).shape;
  const size_t axis = Int(node, "axis");
  const size_t element = DTypeSize(graph.type(out).dtype);
  std::vector<Place> places;
  for (Value x : node.operands) {
    ASSIGN_OR_RETURN(places.emplace_back(), lowering.Find(x));
  }
  const Layout to = lowering.LayoutOf(group, out);
  int64_t outer = 1;
  for (size_t k = 0; k < axis; ++k) outer *= dims[k];

  const int result = lowering.Define(out, to).buffer;
  int64_t begin = 0;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const Value x = node.operands[k];
    const Shape& x_dims = graph.type(x).shape;
    const Layout own = to.blocked() ? Layout::Blocked(x_dims, to.block) : Layout::RowMajor(x_dims);
    const int64_t offset = to.blocked() && axis == 1 ? begin / to.block * to.strides[1] : begin * to.strides[axis];
    begin += x_dims[axis];
    Place place = places[k];
    if (outer == 1 && place.layout == Simplified(own) &&
        lowering.ClaimPart(place.buffer, lowering.Bytes(x, own), result, static_cast<size_t>(offset) * element)) {
      continue;
    }
    if (place.layout.IsPadded() || (place.layout.blocked() && to.blocked() && place.layout.block != to.block)) {
      ASSIGN_OR_RETURN(place, lowering.FindAs(x, own));
    }
    const Layout target{x_dims, to.strides, to.block};
    lowering.Emit(MakeCopyKernel(place.layout, 0, target, offset, element, lowering.threads()),
                  {Lowering::Read(place.buffer), Lowering::Write(result)}, "concat");
  }
  return true;
}

}  // namespace

KernelEntry ConcatEntry() { return {.ops = {ops::Concat()}, .plan = Plan, .layout = ConcatLayout}; }

}  // namespace rewright::cpu
