// Random graphs of the operators that fuse, share memory and change layouts.
#pragma once

#include <vector>

#include "core/ir/graph.h"

namespace rewright {

// All operators but the opaque ones, which GPUs refuse.
std::vector<const OpDef*> OpsOfGpus();
// Returns whether a graph has no narrow elements, which GPUs refuse likewise.
bool IsOfGpus(const Graph& graph);

// A random application of an operator, its operands as inputs; `sample` tells the range of their elements.
Graph RandomApplication(const OpDef& op, Rng& rng, OpSample* sample);

// About `nodes` operators on images [n, c, h, w], or on matrices [b, m, n]; some values on the way are outputs. The
// same graph for the same seed.
Graph RandomImageGraph(uint64_t seed, int nodes);
Graph RandomMatrixGraph(uint64_t seed, int nodes);

}  // namespace rewright
