#include "core/ir/folded_values.h"

#include "absl/container/flat_hash_set.h"

namespace rewright {

std::vector<Value> FoldedValues(const Graph& graph) {
  std::vector<Value> folded;
  absl::flat_hash_set<Value> seen;
  auto read = [&](Value value) {
    const Node& node = graph.node(value.node);
    if (node.op != nullptr && graph.IsKnown(node) && seen.insert(value).second) folded.push_back(value);
  };
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (!graph.IsRun(node)) continue;
    for (Value operand : node.operands) read(operand);
  }
  for (const Output& output : graph.outputs()) read(output.value);
  return folded;
}

}  // namespace rewright
