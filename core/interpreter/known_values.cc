#include "core/interpreter/known_values.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/memory.h"

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

absl::StatusOr<std::vector<Tensor>> ComputeKnown(const std::shared_ptr<Arena>& arena, const std::vector<Value>& values,
                                                 int threads) {
  if (values.empty()) return std::vector<Tensor>();
  std::vector<Output> outputs;
  int64_t total = 0;
  for (Value value : values) {
    const TensorType& type = arena->type(value);
    const Node& node = arena->node(value.node);
    const std::string what =
        absl::StrCat("the weight ", type.ToString(), " that ", node.op == nullptr ? node.name : node.op->name,
                     " (node ", value.node, ") computes beforehand");
    RETURN_IF_ERROR(CheckMemory(total += type.num_bytes(), what));
    outputs.push_back({value, ""});
  }
  return InterpretGraph(Graph(arena, {}, std::move(outputs)), {}, {.threads = threads});
}

}  // namespace rewright
