#include "backends/cuda/context_layout.h"

#include "backends/meaning.h"

namespace rewright::cuda {

Layout ContextLayouts::Of(const Graph& graph, Value value) {
  if (arena_.lock() != graph.arena()) {
    arena_ = graph.arena();
    known_.clear();
  }
  // Only views and what follows the layout of an operand look further; a chain of them may be long.
  std::vector<Value> path = {value};
  while (!known_.contains(path.back())) {
    const Node& node = graph.node(path.back().node);
    if (node.op == nullptr || node.operands.empty() || known_.contains(node.operands[0])) break;
    path.push_back(node.operands[0]);
  }
  for (size_t i = path.size(); i-- > 0;) {
    if (!known_.contains(path[i])) known_[path[i]] = Compute(graph, path[i]);
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
  if (!IsPointwise(*node.meaning)) return row_major;
  const Layout first = operand(0);
  return first.dims == shape && first.IsDense() ? first : row_major;
}

}  // namespace rewright::cuda
