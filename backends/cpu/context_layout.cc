#include "backends/cpu/context_layout.h"

#include "backends/cpu/lowering.h"
#include "backends/meaning.h"

namespace rewright::cpu {

Layout CpuLayouts::Compute(const Graph& graph, Value value) const {
  const Node& node = graph.node(value.node);
  const Shape& dims = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(dims);
  auto blocked = [&](int64_t block) {
    return dims.size() == 4 && block != 0 && dims[1] % block == 0 ? Simplified(Layout::Blocked(dims, block))
                                                                  : row_major;
  };
  auto of = [&](size_t operand) { return Known(graph, node.operands[operand]); };
  const std::string& name = node.op->name;
  if (name == "conv2d") return node.outputs[0].dtype == DType::kFloat32 ? blocked(block_) : row_major;
  if (name == "max_pool2d" || name == "avg_pool2d" || name == "lrn") return blocked(of(0).block);
  if (name == "pad") return OnlyAdds(node) ? blocked(of(0).block) : row_major;
  if (name == "concat") {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (of(i).block != of(0).block) return row_major;
    }
    return blocked(of(0).block);
  }
  if (const std::optional<Layout> moved = Moved(graph, value)) return *moved;
  if (IsPointwise(*node.meaning)) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Layout operand = of(i);
      if (operand.dims == dims && operand.IsDense() && !operand.IsRowMajor()) return operand;
    }
  }
  return row_major;
}

}  // namespace rewright::cpu
