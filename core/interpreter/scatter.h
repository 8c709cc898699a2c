// Stages that scatter.
#pragma once

#include <vector>

#include "core/interpreter/program.h"

namespace rewright::interp {

// Fills `out`, the result of a stage that scatters.
void RunScatter(const Stage& stage, const std::vector<const void*>& operands, void* out);

}  // namespace rewright::interp
