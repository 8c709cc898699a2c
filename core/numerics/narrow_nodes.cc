#include "core/numerics/narrow_nodes.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

class Narrower {
 public:
  Narrower(const Graph& graph, DType to) : graph_(graph), arena_(*graph.arena()), to_(to) {}

  absl::StatusOr<Graph> Run(const absl::flat_hash_set<NodeId>& nodes) {
    for (const NodeId id : graph_.nodes()) {
      const bool narrow = nodes.contains(id);
      if (graph_.node(id).op == nullptr) {
        wide_[{id, 0}] = {id, 0};
      } else if (auto status = Add(id, narrow); !status.ok()) {
        return ErrorAt(absl::StrCat(graph_.node(id).op->name, " (node ", id, ")"), status);
      }
    }
    std::vector<Output> outputs;
    for (const Output& output : graph_.outputs()) {
      outputs.push_back(output);
      ASSIGN_OR_RETURN(outputs.back().value, In(output.value, /*narrow=*/false));
    }
    return Graph(graph_.arena(), graph_.inputs(), std::move(outputs));
  }

 private:
  absl::Status Add(NodeId id, bool narrow) {
    const Node node = graph_.node(id);  // a copy: the arena grows
    std::vector<Value> operands;
    for (const Value operand : node.operands) {
      ASSIGN_OR_RETURN(operands.emplace_back(), In(operand, narrow));
    }
    ASSIGN_OR_RETURN(const NodeId made, narrow ? AddNarrow(arena_, id, std::move(operands), to_)
                                               : arena_.Add(*node.op, std::move(operands), node.attrs));
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Value value{id, static_cast<int32_t>(o)}, result{made, static_cast<int32_t>(o)};
      const bool is_narrow = narrow && node.outputs[o].dtype == DType::kFloat32;
      (is_narrow ? narrow_ : wide_)[value] = result;
    }
    return absl::OkStatus();
  }

  // Returns the value as it is read by what is computed in that type.
  absl::StatusOr<Value> In(Value value, bool narrow) {
    if (graph_.type(value).dtype != DType::kFloat32) return wide_.at(value);
    ValueMap &wanted = narrow ? narrow_ : wide_, &other = narrow ? wide_ : narrow_;
    if (const auto found = wanted.find(value); found != wanted.end()) return found->second;
    ASSIGN_OR_RETURN(const Value converted,
                     arena_.Apply("cast", {other.at(value)}, {{"to", narrow ? to_ : DType::kFloat32}}));
    return wanted[value] = converted;
  }

  const Graph& graph_;
  Arena& arena_;
  const DType to_;
  ValueMap wide_, narrow_;  // by value of the graph
};

}  // namespace

absl::StatusOr<NodeId> AddNarrow(Arena& arena, NodeId id, std::vector<Value> operands, DType to) {
  const OpDef* const op = arena.node(id).op;
  Attrs attrs = arena.node(id).attrs;
  for (auto& [name, attr] : attrs) {
    DType* const dtype = std::get_if<DType>(&attr);
    if (dtype != nullptr && *dtype == DType::kFloat32) *dtype = to;
  }
  return arena.Add(*op, std::move(operands), std::move(attrs));
}

absl::StatusOr<Graph> WithNarrowNodes(const Graph& graph, const absl::flat_hash_set<NodeId>& nodes, DType to) {
  return Narrower(graph, to).Run(nodes);
}

absl::StatusOr<Graph> WithRoundedOperands(const Graph& graph, const absl::flat_hash_set<NodeId>& nodes, DType to) {
  Arena& arena = *graph.arena();
  ValueMap values, rounded;  // by value of the graph
  const auto rounded_of = [&](Value value) -> absl::StatusOr<Value> {
    if (graph.type(value).dtype != DType::kFloat32) return values.at(value);
    if (const auto found = rounded.find(value); found != rounded.end()) return found->second;
    ASSIGN_OR_RETURN(const Value narrow, arena.Apply("cast", {values.at(value)}, {{"to", to}}));
    ASSIGN_OR_RETURN(rounded[value], arena.Apply("cast", {narrow}, {{"to", DType::kFloat32}}));
    return rounded[value];
  };
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    std::vector<Value> operands;
    for (const Value operand : node.operands) {
      operands.push_back(values.at(operand));
      if (!nodes.contains(id)) continue;
      ASSIGN_OR_RETURN(operands.back(), rounded_of(operand));
    }
    const NodeId made = node.op == nullptr || operands == node.operands ? id : arena.AddLike(node, operands);
    for (int32_t o = 0; o < static_cast<int32_t>(node.outputs.size()); ++o) values[{id, o}] = {made, o};
  }
  std::vector<Output> outputs = graph.outputs();
  for (Output& output : outputs) output.value = values.at(output.value);
  return Graph(graph.arena(), graph.inputs(), std::move(outputs));
}

}  // namespace rewright
