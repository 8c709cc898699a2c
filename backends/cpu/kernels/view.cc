// Operators that only move elements: views where the layout allows, copies elsewhere.
#include <utility>

#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// The view of the operand as it lies, or of its row-major form (`convert`): reshapes are always views of that, and
// blocked layouts are not copied by strides.
struct View {
  MovedView moved;
  bool convert = false;
};

std::optional<View> ViewFrom(const Graph& graph, Value value, const std::function<Layout(size_t)>& of) {
  std::optional<MovedView> moved = MovedViewOf(graph, value, of);
  if (!moved) return std::nullopt;
  const Node& node = graph.node(value.node);
  const bool reads_any = node.op != ops::Reshape() && !of(static_cast<size_t>(moved->input)).blocked();
  if (moved->is_view || reads_any) return View{*std::move(moved)};
  const auto row_major = [&](size_t input) { return Layout::RowMajor(graph.type(node.operands[input]).shape); };
  return View{*MovedViewOf(graph, value, row_major), true};
}

std::optional<Layout> ViewLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kView) return std::nullopt;
  const auto of = [&](size_t input) { return query.operand(input); };
  const std::optional<View> view = ViewFrom(query.graph, query.value, of);
  return view->moved.is_view ? view->moved.layout : Layout::RowMajor(query.dims());
}

absl::Status PlanOutput(Lowering& lowering, Value out) {
  const Graph& graph = lowering.graph();
  const Node& node = graph.node(out.node);
  absl::Status status;
  const std::optional<View> view = ViewFrom(graph, out, [&](size_t input) {
    absl::StatusOr<Place> found = lowering.Find(node.operands[input]);
    status.Update(found.status());
    return found.ok() ? found->layout : Layout::RowMajor(graph.type(node.operands[input]).shape);
  });
  RETURN_IF_ERROR(status);
  const Value x = node.operands[view->moved.input];
  ASSIGN_OR_RETURN(const Place place, view->convert ? lowering.FindRowMajor(x) : lowering.Find(x));
  const Layout& layout = view->moved.layout;
  const DType dtype = graph.type(x).dtype;
  if (view->moved.is_view) {
    const size_t offset = static_cast<size_t>(view->moved.offset) * DTypeSize(dtype);
    lowering.DefineAt(out, lowering.AddView(place.buffer, offset, lowering.Bytes(out, layout)), layout);
    return absl::OkStatus();
  }
  // Backwards.
  const Layout to = Layout::RowMajor(graph.type(out).shape);
  lowering.EmitCopy({place.buffer, layout}, {lowering.Define(out, to).buffer, to}, dtype, node.op->name,
                    view->moved.offset);
  return absl::OkStatus();
}

absl::StatusOr<bool> PlanView(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kView) return false;
  const NodeId id = group.group.nodes[0];
  for (int output = 0; output < static_cast<int>(lowering.graph().node(id).outputs.size()); ++output) {
    RETURN_IF_ERROR(PlanOutput(lowering, Value{id, output}));
  }
  return true;
}

}  // namespace

KernelEntry ViewEntry() { return {.ops = {}, .plan = PlanView, .layout = ViewLayout, .version = 2}; }

}  // namespace rewright::cpu
