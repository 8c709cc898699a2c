#include "backends/cuda/context_layout.h"

#include "backends/cuda/lowering.h"
#include "backends/meaning.h"

namespace rewright::cuda {

Layout ContextLayouts::Of(const Graph& graph, Value value) {
  if (arena_.lock() != graph.arena()) {
    arena_ = graph.arena();
    known_.clear();
  }
  // Operands first, without recursion: graphs are deep.
  std::vector<Value> open = {value};
  while (!open.empty()) {
    const Value next = open.back();
    const size_t before = open.size();
    if (!known_.contains(next)) {
      const Node& node = graph.node(next.node);
      for (Value operand : node.operands) {
        if (!known_.contains(operand) && !node.weight_only) open.push_back(operand);
      }
    }
    if (open.size() != before) continue;
    if (!known_.contains(next)) {
      Layout layout = Compute(graph, next);
      known_.emplace(next, std::move(layout));
    }
    open.pop_back();
  }
  return known_.at(value);
}

Layout ContextLayouts::Compute(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  const Shape& shape = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(shape);
  if (node.op == nullptr || node.weight_only || node.operands.empty() || NumElements(shape) == 0) return row_major;
  auto operand = [&](size_t i) {
    const auto found = known_.find(node.operands[i]);
    return found != known_.end() ? found->second : Layout::RowMajor(graph.type(node.operands[i]).shape);
  };
  Layout layout;
  int64_t offset = 0;
  if (const auto access = CopyAccessOf(graph, node, value.output); access.has_value()) {
    return ViewOf(operand(static_cast<size_t>(access->input)), *access, shape, &layout, &offset) ? layout : row_major;
  }
  if (node.op->name == "reshape") return ReshapeLayout(operand(0), shape, &layout) ? layout : row_major;
  if (node.op->name == "conv2d") return channels_last_ ? ChannelsLast(shape) : row_major;
  if (node.op->name == "matmul") return row_major;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Layout layout = operand(i);
    if (graph.node(node.operands[i].node).weight_only || layout.dims.size() != shape.size()) continue;
    return layout.IsDense() ? DenseLike(layout, shape) : row_major;
  }
  return row_major;
}

}  // namespace rewright::cuda
