#include "runtime/distributed/proof/terms.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ops/ops.h"

namespace rewright::distributed {

absl::StatusOr<std::vector<Value>> Terms::OutputsOf(const Graph& graph, ValueMap values) {
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (values.contains(Value{id, 0})) continue;
    if (node.op == ops::After()) {
      values[{id, 0}] = values.at(node.operands[0]);
      continue;
    }
    if (node.leaf == LeafKind::kInput || node.leaf == LeafKind::kState) {
      return absl::FailedPreconditionError(absl::StrCat("nothing is given for `", node.name, "`"));
    }
    RETURN_IF_ERROR(CopyNode(*graph.arena(), id, *arena_, &values));
  }
  std::vector<Value> outputs;
  for (const Output& output : graph.outputs()) outputs.push_back(values.at(output.value));
  return outputs;
}

absl::StatusOr<Tensor> Terms::ElementsOf(const Term& term, const std::set<Value>& weights) {
  if (const auto found = elements_.find(term); found != elements_.end()) return found->second;
  std::vector<Value> inputs;
  const Graph reached(arena_, {}, {{term.value, "term"}});
  for (NodeId id : reached.nodes()) {
    if (arena_->node(id).leaf == LeafKind::kInput) inputs.push_back({id, 0});
  }
  const Graph graph(arena_, inputs, {{term.value, "term"}});
  constexpr uint64_t kSeed = 1;
  ASSIGN_OR_RETURN(const std::vector<Tensor> of_weights, RandomInputs(graph, kSeed));
  ASSIGN_OR_RETURN(const std::vector<Tensor> of_data,
                   RandomInputs(graph, kSeed + 1 + static_cast<uint64_t>(term.micro_batch)));
  absl::flat_hash_map<std::string, Tensor> drawn;
  for (size_t k = 0; k < inputs.size(); ++k) {
    drawn[arena_->node(inputs[k].node).name] = weights.contains(inputs[k]) ? of_weights[k] : of_data[k];
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> result, InterpretGraph(graph, drawn, {.precision = Precision::kFloat64}));
  return elements_[term] = result[0];
}

}  // namespace rewright::distributed
