// Finds sums that round on purpose: a term is added and taken away again, so that over the reals nothing of it remains.
#pragma once

#include <vector>

#include "core/ir/graph.h"
#include "core/numerics/ranges.h"

namespace rewright {

// Finds the applications of which every bit matters:
//
//   (x + c) - c                 rounds x by a constant; so does a c of which the sum leaves a small part
//   t - (t - x), t = 4097 x     the upper half of x (Veltkamp)
//   (a + b) - a                 the part of b that arrived in the sum (TwoSum, Kahan's sum)
//
// They are sums and differences in whose linear form a term meets itself with the other sign. If that term is not
// constant, the result is a part of a number or the error of a sum. Then the sums and products made of it count as
// well: x y - p, or the total of such errors.
std::vector<NodeId> RoundingSums(const Graph& graph, Numerics& numerics);

}  // namespace rewright
