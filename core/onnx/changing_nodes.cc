#include "core/onnx/changing_nodes.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/import/graph_importer.h"
#include "core/onnx/part.h"
#include "core/onnx/source.h"

namespace rewright {

class ChangingNodes::Finder {
 public:
  Finder(ChangingNodes* nodes, const AxisOf& axis) : nodes_(*nodes), source_(*nodes->source_), axis_(axis) {}

  // False: see Find.
  bool Find(const std::vector<Value>& inputs) {
    for (Value input : inputs) {
      if (!axis_(input)) return false;
      inputs_.insert(input);
    }
    int at = 0;
    for (const FileNode& node : FileNodes(source_)) {
      if (!Add(at++, node)) return false;
    }
    return true;
  }

 private:
  bool Add(int at, const FileNode& node) {
    const bool changes = std::any_of(node.reads.begin(), node.reads.end(),
                                     [&](const std::string& name) { return OperandOf(name).changes(); });
    return changes ? AddStep(at, node) : AddFixed(node);
  }

  // Results of a node that reads the same at every size.
  bool AddFixed(const FileNode& node) {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& name) {
      const auto value = FileValue(source_, name);
      return !value || axis_(*value).value_or(-1) < 0;
    });
  }

  bool AddStep(int at, const FileNode& node) {
    const onnx::NodeProto& proto = source_.node(at);
    const bool unknown = std::any_of(node.reads.begin(), node.reads.end(), [&](const std::string& name) {
      return OperandOf(name).kind == Operand::kUnknown;
    });
    const OnnxOperator* const op = unknown ? nullptr : FindOperator(proto, source_.opset());
    if (op == nullptr) return Leave(node);
    Step step{.node = at, .op = op};
    std::string key = absl::StrCat(node.op, "|", node.attributes, "|");
    for (const std::string& name : proto.input()) {
      const auto first = std::find(proto.input().begin(), proto.input().end(), name) - proto.input().begin();
      step.operands.push_back(OperandOf(name));
      absl::StrAppend(&key, KeyOf(step.operands.back()), " as ", first, ",");
    }
    std::vector<std::optional<int>> axes;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const auto value = FileValue(source_, node.outputs[k]);
      axes.push_back(value ? axis_(*value) : std::nullopt);
      if (axes.back()) step.results.emplace_back(*value, static_cast<int>(k));
      absl::StrAppend(&key, node.outputs[k].empty() ? "none" : axes.back() ? absl::StrCat(*axes.back()) : "?", ",");
    }
    const auto [found, is_new] = known_.emplace(key, static_cast<int>(nodes_.steps_.size()));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const auto value = FileValue(source_, node.outputs[k]);
      if (!value) continue;
      const bool leaf = axes[k] && !source_.arena()->IsKnown(*value);
      results_[node.outputs[k]] =
          leaf ? Operand{.kind = Operand::kLeaf, .leaf = *value, .axis = *axes[k]}
               : Operand{.kind = Operand::kResult, .step = found->second, .output = static_cast<int>(k)};
    }
    if (is_new) nodes_.steps_.push_back(std::move(step));
    return true;
  }

  bool Leave(const FileNode& node) {
    nodes_.complete_ = false;
    for (const std::string& name : node.outputs) results_[name] = {.kind = Operand::kUnknown};
    if (node.op != "If") return true;
    const Operand condition = OperandOf(node.reads[0]);
    const Value value = *FileValue(source_, node.reads[0]);
    if (condition.kind == Operand::kResult && source_.arena()->IsKnown(value)) {
      nodes_.steps_.push_back({.operands = {condition}, .results = {{value, 0}}});
    }
    return true;
  }

  Operand OperandOf(const std::string& name) const {
    if (const auto result = results_.find(name); result != results_.end()) return result->second;
    const auto value = FileValue(source_, name);
    if (!value) return {};
    const bool input = inputs_.contains(*value);
    return {.kind = Operand::kLeaf, .leaf = *value, .axis = input ? *axis_(*value) : -1};
  }

  // Equal for operands by which nodes import alike.
  std::string KeyOf(const Operand& operand) const {
    const Arena& arena = *source_.arena();
    if (operand.kind == Operand::kNone) return "none";
    if (operand.kind == Operand::kResult) return absl::StrCat("result ", operand.step, ".", operand.output);
    if (arena.IsKnown(operand.leaf)) return absl::StrCat("value ", operand.leaf.node, ".", operand.leaf.output);
    return absl::StrCat(arena.type(operand.leaf).ToString(), " by ", operand.axis);
  }

  ChangingNodes& nodes_;
  const OnnxSource& source_;
  const AxisOf& axis_;
  absl::flat_hash_set<Value> inputs_;
  std::map<std::string, Operand> results_;  // of steps and of nodes like them, by name
  std::map<std::string, int> known_;        // steps, by what decides on their import
};

std::optional<ChangingNodes> ChangingNodes::Find(std::shared_ptr<const OnnxSource> source,
                                                 const Graph& graph, const AxisOf& axis) {
  if (source->arena() != graph.arena() || !source->tail().empty()) return std::nullopt;
  ChangingNodes nodes(std::move(source));
  const bool found = Finder(&nodes, axis).Find(graph.inputs());
  return found ? std::optional(std::move(nodes)) : std::nullopt;
}

class ChangingNodes::Import {
 public:
  Import(const OnnxSource& source, int64_t by) : source_(source), by_(by) {
    made_.arena = state_.arena;
    state_.opset = source.opset();
    state_.generated_bytes_left = ImportOptions().max_generated_bytes;
  }

  ChangedValues All(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      const absl::Status status = One(step);
      if (made_.status.ok()) made_.status = status;
      if (!status.ok()) results_.emplace_back();
    }
    if (state_.masks != 0 || !state_.updates.empty()) made_.status = absl::UnimplementedError("a node draws numbers");
    return std::move(made_);
  }

 private:
  absl::Status One(const Step& step) {
    std::vector<std::optional<Value>> operands;
    for (const Operand& operand : step.operands) {
      operands.emplace_back();
      if (operand.kind == Operand::kNone) continue;
      ASSIGN_OR_RETURN(operands.back(), ValueOf(operand));
    }
    std::vector<Value> results;
    if (step.op == nullptr) {
      results.push_back(*operands[0]);
    } else {
      ASSIGN_OR_RETURN(results, ImportOperator(state_, source_.node(step.node), *step.op, std::move(operands)));
    }
    for (const auto& [value, output] : step.results) {
      if (output >= std::ssize(results)) return LeftOut();
      made_.results.emplace_back(value, results[output]);
    }
    results_.push_back(std::move(results));
    return absl::OkStatus();
  }

  absl::StatusOr<Value> ValueOf(const Operand& operand) {
    if (operand.kind == Operand::kResult) return ResultOf(operand.step, operand.output);
    if (const auto copy = copies_.find(operand.leaf); copy != copies_.end()) return copy->second;
    const Arena& arena = *source_.arena();
    if (arena.IsKnown(operand.leaf)) {
      const Graph known(source_.arena(), {}, {{operand.leaf, "known"}});
      for (NodeId id : known.nodes()) RETURN_IF_ERROR(CopyNode(arena, id, *made_.arena, &copies_));
      return copies_.at(operand.leaf);
    }
    TensorType type = arena.type(operand.leaf);
    if (operand.axis >= 0) type.shape[operand.axis] -= by_;
    const std::string name = absl::StrCat("value ", operand.leaf.node, ".", operand.leaf.output);
    ASSIGN_OR_RETURN(const Value leaf, made_.arena->AddInput(name, type));
    made_.leaves[leaf] = operand.leaf;
    return copies_[operand.leaf] = leaf;
  }

  absl::StatusOr<Value> ResultOf(int step, int output) const {
    if (output < std::ssize(results_[step])) return results_[step][output];
    return LeftOut();
  }

  static absl::Status LeftOut() { return absl::UnimplementedError("an output is left out"); }

  const OnnxSource& source_;
  const int64_t by_;
  ImportState state_;
  ChangedValues made_;
  ValueMap copies_;  // of operands
  std::vector<std::vector<Value>> results_;
};

ChangedValues ChangingNodes::ImportAt(int64_t by) const { return Import(*source_, by).All(steps_); }

}  // namespace rewright
