// The order in which groups run, chosen for memory.
//
// A graph orders its nodes depth first. In a step of training that computes the gradients of activations down to the
// first layer before the first gradient of a weight, so that all of them are kept; and what is read late is often
// computed early. Here groups move: to just behind what they read, or to just before who reads them, as long as less is
// live at the fullest steps.
#pragma once

#include <vector>

#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright {

struct OrderedGroup {
  const Group* group = nullptr;
  bool is_view = false;  // its outputs lie in the memory of its first input
  bool is_last = false;  // behind all others, where it stands: a next value that is written over the old one
};

// Positions in `groups`, operands before users. The groups are in such an order, those that are last at its end.
// Deterministic.
std::vector<int> OrderForMemory(const Graph& graph, const std::vector<OrderedGroup>& groups);

}  // namespace rewright
