// Reductions along rows together with what is computed of every row from its one number: a norm of rows is the sum of
// their squares, a root for each row, and the product of the row with it. One after the other, row by row, each row is
// read a second time while it is in the first level of cache.
#pragma once

#include <vector>

#include "backends/cpu/codegen/pointwise.h"
#include "backends/cpu/fuse/fusion.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

// A sum, a mean, the largest or the smallest along some axes.
bool IsJoin(const Node& node);

// A group of kind kRows by its parts.
struct RowParts {
  int64_t rows = 0, size = 0;  // rows of `size` elements each, one behind another in row-major order
  Group terms;                 // pointwise nodes before the reduction; none: it reduces a value as it is
  Group results;               // what follows it: nodes with an element a row, then those of the results' shape
  PointwiseOperand row;        // what the reduction gives, at axes of the results
};
RowParts RowPartsOf(const Graph& graph, const FusedGroup& group);

// Makes one group of the groups of such a pattern. The joined values are read nowhere else, the rows have 128 to 8192
// elements of f32, and all but the reduction itself can be compiled.
std::vector<FusedGroup> JoinRows(const Graph& graph, std::vector<FusedGroup> groups);

}  // namespace rewright::cpu
