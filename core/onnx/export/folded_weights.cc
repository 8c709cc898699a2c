#include "core/onnx/export/folded_weights.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/onnx/export/writer.h"
#include "core/ops/foreign.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

class Chooser {
 public:
  explicit Chooser(const ExportedGraph& exported)
      : exported_(exported),
        graph_(exported.graph),
        source_(exported.source),
        plan_(exported.plan),
        biases_(exported.biases) {}

  WeightChoice Choose() {
    std::vector<Value> open = NeededWeights();
    while (!open.empty()) {
      const Value value = open.back();
      open.pop_back();
      const Node& node = graph_.node(value.node);
      if (node.op == nullptr) continue;
      if (exported_.is_folded(value.node) && !IsWidened(value)) {
        choice_.folded.insert(value);
      } else if (choice_.computed.insert(value.node).second) {
        open.insert(open.end(), node.operands.begin(), node.operands.end());
      }
    }
    ComputeInFile();
    return std::move(choice_);
  }

 private:
  // True for reals that are computed in fewer bits: the file has them in these.
  bool IsWidened(Value value) const {
    const Node& node = graph_.node(value.node);
    if (node.op != ops::Cast() || graph_.type(value).num_bytes() <= kSmallBytes) return false;
    const DType from = graph_.type(node.operands[0]).dtype, to = graph_.type(value).dtype;
    return IsFloating(from) && IsFloating(to) && DTypeSize(from) < DTypeSize(to);
  }

  // Returns the known values, leaves excluded, that run-time nodes and outputs read.
  std::vector<Value> NeededWeights() const {
    std::set<Value> needed;
    const auto need = [&](Value value) {
      if (graph_.node(value.node).op != nullptr && graph_.IsKnown(value)) needed.insert(value);
    };
    for (const auto& [i, kept] : plan_.kept()) {
      for (const auto& [theirs, ours] : kept.bindings) {
        if (ours != theirs) need(ours);
      }
    }
    for (NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (!graph_.IsRun(node) || !plan_.IsOwn(id)) continue;
      for (Value operand : node.operands) {
        const bool is_bias = biases_.IsAbsorbed(id) && graph_.IsKnown(operand);
        need(is_bias ? biases_.VectorBehind(operand).value_or(operand) : operand);
      }
    }
    for (const Output& output : graph_.outputs()) need(output.value);
    return std::vector<Value>(needed.begin(), needed.end());
  }

  // Removes from the folded values those whose tensors would take more bytes than the weights that they alone read:
  // such weights are narrower, or other nodes read them too. Only values that the file computes, or that are made of at
  // most kSmallBytes of weights, are removed; the written file computes them.
  void ComputeInFile() {
    if (source_ == nullptr) return;
    absl::flat_hash_set<NodeId> read = LeavesRead();
    std::vector<Value> largest;
    for (Value value : choice_.folded) {
      if (graph_.type(value).num_bytes() > kSmallBytes && !biases_.IsBias(value)) largest.push_back(value);
    }
    std::stable_sort(largest.begin(), largest.end(),
                     [&](Value a, Value b) { return graph_.type(a).num_bytes() > graph_.type(b).num_bytes(); });
    for (Value value : largest) {
      const std::optional<std::vector<NodeId>> cone = WritableCone(value.node);
      if (!cone) continue;
      int64_t all = 0, more = 0;
      for (NodeId id : *cone) {
        if (graph_.node(id).op != nullptr) continue;
        all += graph_.type({id, 0}).num_bytes();
        if (!read.contains(id)) more += graph_.type({id, 0}).num_bytes();
      }
      const bool is_of_file = source_->producer(graph_.arena()->name(value)) >= 0;
      if (!(is_of_file || all <= kSmallBytes) || more + kSmallBytes > graph_.type(value).num_bytes()) continue;
      choice_.folded.erase(value);
      for (NodeId id : *cone) (graph_.node(id).op == nullptr ? read : choice_.computed).insert(id);
    }
  }

  // Returns the nodes that own and kept nodes read; weights and constants among them are written in any case.
  absl::flat_hash_set<NodeId> LeavesRead() const {
    absl::flat_hash_set<NodeId> read;
    for (NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (!graph_.IsRun(node) || !plan_.IsOwn(id)) continue;
      for (Value operand : node.operands) read.insert(operand.node);
    }
    for (const auto& [i, kept] : plan_.kept()) {
      std::vector<int> written = kept.before;
      written.push_back(i);
      for (int at : written) {
        for (const std::string& name : source_->node(at).input()) {
          if (name.empty()) continue;
          const auto bound = kept.bindings.find(source_->value(name));
          read.insert((bound == kept.bindings.end() ? source_->value(name) : bound->second).node);
        }
      }
    }
    return read;
  }

  // Returns the known node and all nodes below it; null if one of them cannot be written at every size.
  std::optional<std::vector<NodeId>> WritableCone(NodeId id) const {
    std::vector<NodeId> cone = {id};
    absl::flat_hash_set<NodeId> seen = {id};
    for (size_t i = 0; i < cone.size(); ++i) {
      const Node& node = graph_.node(cone[i]);
      if (exported_.is_sized(cone[i])) return std::nullopt;
      const OnnxForm* form = node.op == nullptr ? nullptr : FindOnnxForm(node.op->name);
      if (node.op != nullptr && (form == nullptr || form->min_opset > exported_.opset || IsForeign(node)))
        return std::nullopt;
      for (Value operand : node.operands) {
        if (seen.insert(operand.node).second) cone.push_back(operand.node);
      }
    }
    return cone;
  }

  const ExportedGraph& exported_;
  const Graph& graph_;
  const OnnxSource* const source_;
  const ExportPlan& plan_;
  const ConvBiases& biases_;
  WeightChoice choice_;
};

}  // namespace

WeightChoice ChooseFolded(const ExportedGraph& exported) { return Chooser(exported).Choose(); }

}  // namespace rewright
