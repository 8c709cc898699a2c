// Which nodes run as one: the device's partition of a graph.
//
// Groups are made in this order:
//   1. An anchor (conv2d, matmul on f32) takes what follows it as an epilogue, as long as each value in between has no
//      other reader: first weight-only scales and shifts per output channel (add, sub, mul, div, batch_norm); then one
//      residual of the same shape is added; then activation functions follow, named ones by name, decomposed ones (a
//      closed region of pointwise nodes over one value) by the values they take. Nothing is folded into the weights:
//      that is algebra, and a rule's to prove.
//   2. Reshapes and copies along linear indices (transpose, slice, split, expand) are groups of their own, which are
//      views where the layout allows.
//   3. The remaining pointwise nodes are gathered backwards from a sink: a producer joins when it has the sink's shape
//      and all its readers are in the group.
//   4. Everything else is alone.
// Every group has one node whose outputs escape, the last; all other nodes are read inside alone. So groups, ordered by
// their last node, never depend on one another in a cycle.
#pragma once

#include <string>
#include <vector>

#include "backends/cpu/activation.h"
#include "core/ir/device.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

struct EpilogueStep {
  enum class Kind : uint8_t {
    kLinear,      // a weight-only scale and shift per channel: `node`, reading the accumulated value at `operand`
    kResidual,    // adds the value `other`
    kActivation,  // `activation`
  };
  Kind kind = Kind::kLinear;
  NodeId node = -1;
  int operand = 0;
  Value other;
  ActivationFunction activation;
};

struct FusedGroup {
  enum class Kind : uint8_t { kConv, kMatmul, kPointwise, kView, kOther };
  Kind kind = Kind::kOther;
  Group group;
  std::vector<EpilogueStep> epilogue;  // kConv, kMatmul
};

// All groups, operands before users.
std::vector<FusedGroup> FuseGraph(const Graph& graph);

}  // namespace rewright::cpu
