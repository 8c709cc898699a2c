#include "core/interpreter/known_values.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/tensor/memory.h"

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

std::vector<std::vector<Value>> IndependentParts(const Arena& arena, const std::vector<Value>& values) {
  std::vector<size_t> joined;  // by value, one before it of the same part, or itself
  const auto first_of = [&](size_t i) {
    while (joined[i] != i) i = joined[i] = joined[joined[i]];
    return i;
  };
  absl::flat_hash_map<NodeId, size_t> needed_by;  // the first value that needs an application
  for (size_t i = 0; i < values.size(); ++i) {
    joined.push_back(i);
    std::vector<NodeId> open = {values[i].node};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      const Node& node = arena.node(id);
      if (node.op == nullptr) continue;
      if (const auto [found, fresh] = needed_by.emplace(id, i); !fresh) {
        // An earlier value reaches this application, and hence all below it.
        const size_t a = first_of(found->second), b = first_of(i);
        joined[std::max(a, b)] = std::min(a, b);
        continue;
      }
      for (Value operand : node.operands) open.push_back(operand.node);
    }
  }
  std::vector<std::vector<Value>> parts;
  std::vector<size_t> part_of(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t first = first_of(i);
    if (first == i) {
      part_of[i] = parts.size();
      parts.emplace_back();
    }
    parts[part_of[first]].push_back(values[i]);
  }
  return parts;
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
  const Graph graph(arena, {}, std::move(outputs));
  absl::StatusOr<std::vector<Tensor>> computed = InterpretGraph(graph, {}, {.threads = threads});
  for (NodeId id : graph.nodes()) {
    if (const Tensor* leaf = arena->Elements(id)) ReleasePages(leaf->data(), leaf->num_bytes());
  }
  return computed;
}

}  // namespace rewright
