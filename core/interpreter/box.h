// Chooses the blocks of a stage by a simple model of the cost of nodes: a fixed part per evaluation, a part per row and
// a part per lane. Large boxes spread the fixed parts. A box that extends along an axis on which few nodes depend lets
// the other nodes be shared along it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/interpreter/program.h"

namespace rewright::interp {

// The box of a stage's blocks: a size per axis, chosen by estimated cost, with at most `max_lanes` positions. Results
// do not depend on it.
std::vector<int64_t> ChooseBox(const Stage& stage, int64_t max_lanes);

}  // namespace rewright::interp
