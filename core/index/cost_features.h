// The cost of applications and graphs, counted on meanings.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/op.h"

namespace rewright {

// Arithmetic work and traffic of one application, read from its meaning. `flops` counts every scalar function
// application and every accumulation of a reduction once (a dot product of length k is 2k); copies are 0. A reduction
// counts once for every value of the variables that it depends on: a softmax's maximum once a row. `bytes` reads each
// operand once and writes each output once.
struct CostFeatures {
  double flops = 0;
  double bytes = 0;
};
CostFeatures FeaturesOf(const Meaning& meaning, const std::vector<TensorType>& inputs, const Attrs& attrs,
                        const std::vector<TensorType>& outputs);

// Returns FLOPs and bytes of the nodes that a run computes, and the elements of the states.
struct GraphFeatures {
  double flops = 0;
  double bytes = 0;
  int64_t parameters = 0;
};
GraphFeatures FeaturesOf(const Graph& graph);

}  // namespace rewright
