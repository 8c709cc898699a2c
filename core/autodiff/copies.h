// Applications that copy whole tensors, of however many parts: operands behind one another (a concatenation), or an
// operand that is cut (a split). Read off the declaration, at the sizes of the application.
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

// The places of the operands, two or more, in the only result, which consists of them in their order. Nothing where the
// declaration is not literally that.
std::optional<PartsAlongAxis> JoinedOperands(const Arena& arena, const Node& node);
// The places of the results, two or more, in the only operand, which is all of them in their order.
std::optional<PartsAlongAxis> CutOperand(const Arena& arena, const Node& node);

}  // namespace rewright
