// Recognizes applications that copy whole tensors in any number of parts: a concatenation of operands, or a split of an
// operand. The declaration tells, at the sizes of the application.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/graph.h"

namespace rewright {

// Positions of parts along an axis: part k is [ends[k - 1], ends[k]), the first one from 0.
struct PartsAlongAxis {
  int64_t axis = 0;
  std::vector<int64_t> ends;
};

// Returns the positions of two or more operands in the only result, which is their concatenation. Nothing if the
// declaration is not literally a concatenation.
std::optional<PartsAlongAxis> JoinedOperands(const Arena& arena, const Node& node);
// Returns the positions of two or more results in the only operand, which is their concatenation.
std::optional<PartsAlongAxis> CutOperand(const Arena& arena, const Node& node);

}  // namespace rewright
