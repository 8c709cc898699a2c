#include "search/optimize/decisions.h"

#include <algorithm>
#include <vector>

#include "core/numerics/ranges.h"
#include "search/optimize/rounding_sums.h"

namespace rewright {
namespace {

// Tells what values reach inside of the node through its operands. An unknown operator is taken to round to integers if
// its results are integers of 8 or 16 bits, and else to compare.
Decisions OwnDecisions(Numerics& numerics, const Node& node, size_t operand) {
  if (node.meaning->IsOpaque()) {
    const bool quantizes = std::any_of(node.outputs.begin(), node.outputs.end(), [](const TensorType& type) {
      return IsInteger(type.dtype) && DTypeSize(type.dtype) <= 2;
    });
    return {.rounding = quantizes, .comparison = true};
  }
  const std::vector<Decisions> nothing_behind(node.outputs.size());
  return numerics.OfOperand(node, static_cast<int>(operand), nothing_behind);
}

}  // namespace

int KeepRoundings(const Graph& graph) {
  Numerics numerics;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.op == nullptr) continue;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const Value operand = node.operands[k];
      if (!IsFloating(graph.type(operand).dtype) || graph.IsKnown(operand)) continue;
      if (OwnDecisions(numerics, node, k).rounding) graph.arena()->KeepBits(operand.node);
    }
  }
  for (NodeId id : RoundingSums(graph, numerics)) graph.arena()->KeepBits(id);
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) { return graph.node(id).keeps_bits; }));
}

int ComparisonsAfter(const Graph& original, const Graph& rewritten) {
  Numerics numerics;
  int count = 0;
  for (NodeId id : rewritten.nodes()) {
    const Node& node = rewritten.node(id);
    if (node.op == nullptr || original.contains(id)) continue;
    bool compares = false;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const Value operand = node.operands[k];
      const bool changed = IsFloating(rewritten.type(operand).dtype) && !original.contains(operand.node) &&
                           !rewritten.IsKnown(operand) && rewritten.node(operand.node).op != nullptr;
      compares = compares || (changed && OwnDecisions(numerics, node, k).comparison);
    }
    count += compares ? 1 : 0;
  }
  return count;
}

}  // namespace rewright
