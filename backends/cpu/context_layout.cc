#include "backends/cpu/context_layout.h"

#include <algorithm>
#include <vector>

#include "absl/hash/hash.h"
#include "backends/cpu/lowering.h"
#include "backends/meaning.h"

namespace rewright::cpu {

Layout ContextLayouts::Of(const Graph& graph, Value value) {
  Prepare(graph, value);
  return Known(graph, value);
}

uint64_t ContextLayouts::HashOf(const Graph& graph, Value value) {
  Prepare(graph, value);
  const Layout* layout = known_.at(value).get();
  return layout == nullptr ? 0 : absl::HashOf(layout->block, layout->strides);
}

Layout ContextLayouts::Known(const Graph& graph, Value value) const {
  const Layout* layout = known_.at(value).get();
  return layout != nullptr ? *layout : Layout::RowMajor(graph.type(value).shape);
}

void ContextLayouts::Prepare(const Graph& graph, Value value) {
  if (arena_.lock() != graph.arena()) {
    arena_ = graph.arena();
    known_.clear();
  }
  // Producers first, without recursion: chains may be long.
  std::vector<Value> stack = {value};
  while (!stack.empty()) {
    const Value top = stack.back();
    if (known_.contains(top)) {
      stack.pop_back();
      continue;
    }
    bool ready = true;
    const Node& node = graph.node(top.node);
    if (node.op != nullptr && !node.weight_only) {
      for (Value operand : node.operands) {
        if (known_.contains(operand)) continue;
        stack.push_back(operand);
        ready = false;
      }
    }
    if (!ready) continue;
    stack.pop_back();
    Layout layout = Compute(graph, top);
    known_[top] = layout.IsRowMajor() ? nullptr : std::make_unique<const Layout>(std::move(layout));
  }
}

Layout ContextLayouts::Compute(const Graph& graph, Value value) const {
  const Node& node = graph.node(value.node);
  const Shape& dims = graph.type(value).shape;
  const Layout row_major = Layout::RowMajor(dims);
  if (node.op == nullptr || node.weight_only) return row_major;
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
  if (name == "reshape") {
    Layout layout;
    return ReshapeLayout(of(0), dims, &layout) ? layout : row_major;
  }
  if (const std::optional<CopyAccess> access = CopyAccessOf(graph, node, value.output)) {
    Layout layout;
    int64_t offset = 0;
    if (ViewOf(of(static_cast<size_t>(access->input)), *access, dims, &layout, &offset)) return layout;
    return row_major;
  }
  if (IsPointwise(*node.meaning)) {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Layout operand = of(i);
      if (operand.dims == dims && operand.IsDense() && !operand.IsRowMajor()) return operand;
    }
  }
  return row_major;
}

}  // namespace rewright::cpu
