#include "backends/cuda/context_layout.h"

#include "backends/cuda/concat.h"
#include "backends/cuda/lowering.h"
#include "backends/meaning.h"
#include "core/ops/ops.h"

namespace rewright::cuda {

Layout ResultLayout(const Graph& graph, Value value, bool channels_last, const std::function<Layout(Value)>& of) {
  const Node& node = graph.node(value.node);
  const Shape& shape = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(shape);
  if (NumElements(shape) == 0) return row_major;
  const auto of_operand = [&](size_t operand) { return of(node.operands[operand]); };
  if (const std::optional<MovedView> moved = MovedViewOf(graph, value, of_operand)) {
    return moved->is_view ? moved->layout : row_major;
  }
  if (node.op == ops::Conv2d()) return channels_last ? Layout::ChannelsLast(shape) : row_major;
  if (node.op == ops::Matmul()) return ProductLayout(graph, value);
  if (node.op == ops::Concat()) return ConcatLayout(shape, channels_last);
  for (Value operand : node.operands) {
    if (graph.IsKnown(operand)) continue;
    // The first operand of the same rank passes the order of its axes on.
    const Layout layout = of(operand);
    if (layout.dims.size() == shape.size()) return DenseLike(layout, shape);
  }
  return row_major;
}

}  // namespace rewright::cuda
