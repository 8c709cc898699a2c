// Known matrices of f32 that are computed from integers of 8 bits: (codes - zero point) * scale, as importers compose
// weights of few bits, and what only moves or joins such matrices. Which values are such a matrix.
#pragma once

#include <vector>

#include "backends/common/layout.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

// Columns of a matrix [k, n] that are (cast(codes) - zero) * scale. All three are known.
struct NarrowPart {
  Value codes;  // u8 or i8
  Value zero;   // of integers or reals, broadcast to the codes; no node: 0
  Value scale;  // f32, likewise
  // The place of element [k, n] among the codes.
  Layout view;
  int64_t offset = 0;
};

// The parts of a known matrix, in order of its columns; none where it is no such matrix. The graph alone decides it.
std::vector<NarrowPart> NarrowPartsOf(const Graph& graph, Value matrix);

}  // namespace rewright::cpu
