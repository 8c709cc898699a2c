// Random graphs of the operators that fuse, share memory and change layouts.
#pragma once

#include "core/graph.h"

namespace rewright {

// About `nodes` operators on images [n, c, h, w], or on matrices [b, m, n]; some values on the way are outputs. The same
// graph for the same seed.
Graph RandomImageGraph(uint64_t seed, int nodes);
Graph RandomMatrixGraph(uint64_t seed, int nodes);

}  // namespace rewright
