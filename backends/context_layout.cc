#include "backends/context_layout.h"

#include <vector>

#include "absl/hash/hash.h"
#include "backends/group.h"

namespace rewright {

Layout ContextLayouts::Of(const Graph& graph, Value value) {
  Prepare(graph, value);
  return Known(graph, value);
}

uint64_t ContextLayouts::HashOf(const Graph& graph, const Group& group) {
  uint64_t hash = 0;
  for (Value input : group.inputs) {
    Prepare(graph, input);
    const Layout* layout = known_.at(input).get();
    hash = hash * 0x9e3779b97f4a7c15 + (layout == nullptr ? 0 : absl::HashOf(layout->block, layout->strides));
  }
  return hash;
}

std::string ContextLayouts::SignatureOf(const Graph& graph, const Group& group) {
  return GroupSignature(graph, group, [&](Value value) { return Of(graph, value).ToString(); });
}

Layout ContextLayouts::Known(const Graph& graph, Value value) const {
  const auto found = known_.find(value);
  const Layout* layout = found != known_.end() ? found->second.get() : nullptr;
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
    const bool computed = graph.IsRun(node);
    if (computed) {
      for (Value operand : node.operands) {
        if (known_.contains(operand)) continue;
        stack.push_back(operand);
        ready = false;
      }
    }
    if (!ready) continue;
    stack.pop_back();
    std::unique_ptr<const Layout>& known = known_[top];
    if (!computed) continue;
    Layout layout = Compute(graph, top);
    if (!layout.IsRowMajor()) known = std::make_unique<const Layout>(std::move(layout));
  }
}

}  // namespace rewright
