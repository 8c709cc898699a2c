#include "backends/cuda/context_layout.h"

#include "backends/cuda/concat.h"
#include "backends/cuda/lowering.h"
#include "backends/meaning.h"
#include "core/ops/ops.h"

namespace rewright::cuda {

Layout CudaLayouts::Compute(const Graph& graph, Value value) const {
  const Node& node = graph.node(value.node);
  const Shape& shape = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(shape);
  if (NumElements(shape) == 0) return row_major;
  const auto of = [&](size_t operand) { return Known(graph, node.operands[operand]); };
  if (const std::optional<MovedView> moved = MovedViewOf(graph, value, of)) {
    return moved->is_view ? moved->layout : row_major;
  }
  if (node.op == ops::Conv2d()) return channels_last_ ? ChannelsLast(shape) : row_major;
  if (node.op == ops::Matmul()) return ProductLayout(graph, value);
  if (node.op == ops::Concat()) return ConcatLayout(shape, channels_last_);
  for (Value operand : node.operands) {
    const Layout layout = Known(graph, operand);
    if (graph.IsKnown(operand) || layout.dims.size() != shape.size()) continue;
    return DenseLike(layout, shape);
  }
  return row_major;
}

}  // namespace rewright::cuda
