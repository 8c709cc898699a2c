#include "verifier/equal/custom_op_cut.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/foreign.h"

namespace rewright {
namespace {

class Cutter {
 public:
  explicit Cutter(const Graph& graph) : graph_(graph), arena_(std::make_shared<Arena>(graph.mode())) {}

  absl::StatusOr<ForeignCut> Run() {
    for (Value input : graph_.inputs()) {
      ASSIGN_OR_RETURN(copies_[input], arena_->AddInput(graph_.node(input.node).name, graph_.type(input)));
      inputs_.push_back(copies_[input]);
    }
    for (NodeId id : graph_.nodes()) {
      RETURN_IF_ERROR(IsForeign(graph_.node(id)) ? Cut(id) : CopyNode(*graph_.arena(), id, *arena_, &copies_));
      for (int32_t k = 0; k < static_cast<int32_t>(graph_.node(id).outputs.size()); ++k) {
        const std::string& name = graph_.arena()->name({id, k});
        if (!name.empty()) arena_->SetName(copies_.at({id, k}), name);
      }
    }
    std::vector<Output> outputs;
    for (const Output& output : graph_.outputs()) {
      Output copy = output;
      copy.value = copies_.at(output.value);
      if (output.updates.node >= 0) copy.updates = copies_.at(output.updates);
      outputs.push_back(copy);
    }
    outputs.insert(outputs.end(), operands_.begin(), operands_.end());
    cut_.graph = Graph(arena_, std::move(inputs_), std::move(outputs));
    return std::move(cut_);
  }

 private:
  absl::Status Cut(NodeId id) {
    const Node& node = graph_.node(id);
    // The number is that of a node of a file.
    const std::string name = absl::StrCat(node.op->name, " ", AttrString(node.attrs.at("node")));
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
      const std::string result = absl::StrCat("result ", k, " of ", name);
      if (!cut_.names.insert(result).second) {
        return absl::UnimplementedError(absl::StrCat(name, " stands in the model more than once"));
      }
      ASSIGN_OR_RETURN(copies_[Value({id, k})], arena_->AddInput(result, node.outputs[k]));
      inputs_.push_back(copies_[Value({id, k})]);
    }
    for (size_t i = 0; i < node.operands.size(); ++i) {
      operands_.push_back({copies_.at(node.operands[i]), absl::StrCat("operand ", i, " of ", name)});
      cut_.names.insert(operands_.back().name);
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const std::shared_ptr<Arena> arena_;
  ForeignCut cut_;
  ValueMap copies_;
  std::vector<Value> inputs_;
  std::vector<Output> operands_;
};

}  // namespace

bool ForeignCut::Concerns(const std::string& output) const {
  if (names.contains(output)) return true;
  for (const Output& of_graph : graph.outputs()) {
    if (of_graph.name != output) continue;
    const Graph alone(graph.arena(), graph.inputs(), {of_graph});
    return std::any_of(alone.nodes().begin(), alone.nodes().end(), [&](NodeId id) {
      const Node& node = alone.node(id);
      return node.leaf == LeafKind::kInput && names.contains(node.name);
    });
  }
  return false;
}

absl::StatusOr<ForeignCut> CutAtForeign(const Graph& graph) {
  if (CountForeign(graph) == 0) return ForeignCut{graph, {}};
  return Cutter(graph).Run();
}

}  // namespace rewright
