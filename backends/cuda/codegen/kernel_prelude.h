// The prelude of generated kernels: the functions that all of them may call.
#pragma once

#include <string>

namespace rewright::cuda {

// The functions that a kernel's source calls, as CUDA C++. Element types are float, double, long long, int and unsigned
// char (truth values, 0 or 1). The functions are those of core/ir/functions.def: integers wrap around, division
// truncates (by zero it gives 0, where the interpreter reports an error), max and min propagate NaN, conversions to
// integers clamp.
const std::string& KernelPrelude();

}  // namespace rewright::cuda
