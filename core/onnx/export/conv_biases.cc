#include "core/onnx/export/conv_biases.h"

#include "core/ops/ops.h"

namespace rewright {

ConvBiases::ConvBiases(const Graph& graph, bool fold_weights, const std::function<bool(NodeId)>& is_folded)
    : graph_(graph), fold_weights_(fold_weights) {
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const NodeId id = graph_.nodes()[i];
    const Node& conv = graph_.node(id);
    const Value result{id, 0};
    if (!graph_.IsRun(conv) || conv.op != ops::Conv2d() || graph_.is_output(result)) continue;
    if (graph_.users(static_cast<int>(i)).size() != 1) continue;
    const NodeId sum_id = graph_.nodes()[graph_.users(static_cast<int>(i))[0]];
    const Node& sum = graph_.node(sum_id);
    if (sum.op != ops::Add()) continue;
    const std::optional<Value> bias = BiasOperand(sum, result);
    if (!bias) continue;
    // If weights are not computed at export, the nodes that compute the bias may come after the convolution; a leaf
    // has no node.
    const std::optional<Value> vector = VectorBehind(*bias);
    const bool vector_is_leaf = vector && graph_.node(vector->node).op == nullptr;
    if (!is_folded(bias->node) && !vector_is_leaf) continue;
    sums_[id] = sum_id;
    biases_[sum_id] = *bias;
    values_.insert(*bias);
    if (vector) values_.insert(*vector);
  }
}

void ConvBiases::Drop(NodeId conv) {
  biases_.erase(sums_.at(conv));
  sums_.erase(conv);
}

std::optional<Value> ConvBiases::VectorBehind(Value bias) const {
  const Node& node = graph_.node(bias.node);
  if (node.op != ops::Reshape() || graph_.type(bias).num_elements() == 1) return std::nullopt;
  const Value vector = node.operands[0];
  return graph_.type(vector).rank() == 1 ? std::optional<Value>(vector) : std::nullopt;
}

std::optional<Value> ConvBiases::BiasOperand(const Node& sum, Value conv) const {
  const Value other = sum.operands[0] == conv ? sum.operands[1] : sum.operands[0];
  if (other == conv || !graph_.IsKnown(other)) return std::nullopt;
  Shape shape = graph_.type(other).shape;
  if (shape.size() > 4) return std::nullopt;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  const bool one_for_all = shape == Shape{1, 1, 1, 1} && fold_weights_;
  if (!one_for_all && shape != Shape{1, graph_.type(conv).shape[1], 1, 1}) return std::nullopt;
  return other;
}

}  // namespace rewright
