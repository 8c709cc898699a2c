#include "backends/cpu/context_layout.h"

#include "backends/cpu/kernel_list.h"

namespace rewright::cpu {

Layout CpuLayouts::Compute(const Graph& graph, Value value) const {
  const Node& node = graph.node(value.node);
  const LayoutQuery query{*context_, graph, value, [&](size_t k) { return Known(graph, node.operands[k]); }};
  if (graph.type(value).num_elements() > 0) {
    for (const KernelEntry& entry : KernelList()) {
      if (entry.layout == nullptr || !entry.Takes(node.op)) continue;
      if (const std::optional<Layout> layout = entry.layout(query)) return Simplified(*layout);
    }
  }
  return Layout::RowMajor(graph.type(value).shape);
}

}  // namespace rewright::cpu
