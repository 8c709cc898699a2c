// Runs whole graphs, and computes their known values before a run.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/index_range.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

// Key of equal compilations, which share one result: models repeat their layers.
struct CompileKey {
  const Meaning* meaning;
  std::vector<int64_t> variables;
  std::vector<double> params;
  std::vector<Shape> shapes;
  friend bool operator<(const CompileKey& a, const CompileKey& b) {
    return std::tie(a.meaning, a.variables, a.params, a.shapes) < std::tie(b.meaning, b.variables, b.params, b.shapes);
  }
};

// Returns a leaf's tensor as the precision stores it.
absl::StatusOr<Tensor> LeafTensor(const Arena& arena, NodeId id, const absl::flat_hash_map<std::string, Tensor>& inputs,
                                  Precision precision) {
  const Node& leaf = arena.node(id);
  const auto it = leaf.leaf == LeafKind::kConstant ? inputs.end() : inputs.find(leaf.name);
  const Tensor* elements = arena.Elements(id);
  const bool has_value = elements != nullptr && (elements->data() != nullptr || elements->num_bytes() == 0);
  if (it == inputs.end() && has_value) return ToPrecision(*elements, precision);
  if (it == inputs.end()) return InvalidArgument("input ", leaf.name, " is not given");
  TensorType stored = leaf.outputs[0];
  stored.dtype = StoredDType(precision, stored.dtype);
  if (it->second.type() == leaf.outputs[0]) return ToPrecision(it->second, precision);
  if (it->second.type() == stored) return it->second;
  return InvalidArgument("input ", leaf.name, " is ", it->second.type().ToString(), ", expected ",
                         leaf.outputs[0].ToString());
}

// Returns the positions in graph.nodes() after which a node's outputs are no longer needed; outputs of the graph stay.
std::vector<std::vector<int>> DyingAfter(const Graph& graph) {
  std::vector<std::vector<int>> dying(graph.nodes().size());
  std::vector<bool> kept(graph.nodes().size(), false);
  for (const Output& output : graph.outputs()) kept[graph.index(output.value.node)] = true;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (kept[i]) continue;
    const std::vector<int>& users = graph.users(static_cast<int>(i));
    dying[users.empty() ? i : static_cast<size_t>(users.back())].push_back(static_cast<int>(i));
  }
  return dying;
}

absl::Status CheckIndices(const Graph& graph, NodeId id, const std::vector<Tensor>& operands) {
  const auto is_integer = [](const Tensor& operand) { return IsInteger(operand.dtype()); };
  if (std::none_of(operands.begin(), operands.end(), is_integer)) return absl::OkStatus();
  for (const IndexedAxis& at : IndexedAxes(*graph.node(id).meaning)) {
    if (!at.wraps) continue;
    const absl::Status status = IndexRange(graph, id, at).Check(operands[at.indices]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> InterpretGraph(const Graph& graph,
                                                   const absl::flat_hash_map<std::string, Tensor>& inputs,
                                                   const InterpretOptions& options) {
  std::map<CompileKey, CompiledMeaning> compiled;
  std::vector<std::vector<Tensor>> values(graph.nodes().size());
  const auto value_of = [&](Value value) -> const Tensor& { return values[graph.index(value.node)][value.output]; };
  const std::vector<std::vector<int>> dying = DyingAfter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.node(graph.nodes()[i]);
    if (node.op == nullptr) {
      ASSIGN_OR_RETURN(Tensor tensor, LeafTensor(*graph.arena(), graph.nodes()[i], inputs, options.precision));
      values[i] = {std::move(tensor)};
      continue;
    }
    std::vector<TensorType> types;
    std::vector<Tensor> operands;
    CompileKey key{node.meaning.get(), {}, {}, {}};
    for (Value operand : node.operands) {
      types.push_back(graph.type(operand));
      operands.push_back(value_of(operand));
      key.shapes.push_back(types.back().shape);
    }
    const Bindings bindings = BindingsOf(*node.meaning, types, node.attrs);
    key.variables = bindings.variables;
    key.params = bindings.params;
    auto it = compiled.find(key);
    absl::Status status;
    if (it == compiled.end()) {
      auto made = CompiledMeaning::Compile(*node.meaning, bindings, types, node.outputs, options.precision);
      status = made.status();
      if (made.ok()) it = compiled.emplace(std::move(key), *std::move(made)).first;
    }
    RETURN_IF_ERROR(CheckIndices(graph, graph.nodes()[i], operands));
    if (status.ok()) {
      auto results = it->second.Run(operands, options.threads);
      status = results.status();
      if (results.ok()) values[i] = *std::move(results);
    }
    if (!status.ok()) {
      return ErrorAt(absl::StrCat(node.op->name, " (node ", graph.nodes()[i], ")"), status);
    }
    for (int dead : dying[i]) values[dead].clear();
  }
  std::vector<Tensor> outputs;
  for (const Output& output : graph.outputs()) outputs.push_back(value_of(output.value));
  return outputs;
}

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
