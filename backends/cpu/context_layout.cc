#include "backends/cpu/context_layout.h"

#include "backends/cpu/lowering.h"
#include "backends/meaning.h"
#include "core/ops/ops.h"

namespace rewright::cpu {

Layout CpuLayouts::Compute(const Graph& graph, Value value) const {
  const Node& node = graph.node(value.node);
  const Shape& dims = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(dims);
  const auto blocked = [&](int64_t block) { return block != 0 ? Simplified(Layout::Blocked(dims, block)) : row_major; };
  const auto of = [&](size_t operand) { return Known(graph, node.operands[operand]); };
  const OpDef* const op = node.op;
  const bool runs = graph.type(value).dtype == DType::kFloat32 && NumElements(dims) > 0;
  if (op == ops::Conv2d()) {
    if (!runs) return row_major;
    const absl::StatusOr<Layout> result = ConvResultLayout(*context_, ConvProblemOf(graph, node));
    return result.ok() ? Simplified(*result) : row_major;
  }
  if (op == ops::MaxPool2d() || op == ops::AvgPool2d()) return runs ? blocked(context_->block) : row_major;
  if (op == ops::Lrn()) return blocked(of(0).block);
  if (op == ops::Pad()) {
    const Layout from = of(0);
    return OnlyAdds(node) && !from.IsPadded() && dims[1] == from.dims[1] ? blocked(from.block) : row_major;
  }
  if (op == ops::Concat()) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (of(i).block != of(0).block || of(i).IsPadded()) return row_major;
    }
    return blocked(of(0).block);
  }
  if (const std::optional<Layout> moved = Moved(graph, value)) return *moved;
  if (IsPointwise(*node.meaning)) {
    // A convolution takes what follows it into its own result, which may be padded; alone it would be row-major.
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Layout operand = of(i);
      if (operand.dims == dims && (operand.IsDense() || operand.IsPadded()) && !operand.IsRowMajor()) return operand;
    }
  }
  return row_major;
}

}  // namespace rewright::cpu
