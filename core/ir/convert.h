// Elements of one type as elements of another.
#pragma once

#include <cstdint>

#include "core/ir/dtype.h"

namespace rewright {

// Writes n elements of type `from` as elements of type `to`: both floating (rounded to the nearest, an f64 by way of
// f32 where 16 bits are left of it), or neither (integers keep their lowest bits). Elements are aligned to their size;
// the two places do not overlap.
void ConvertElements(DType from, const void* in, DType to, void* out, int64_t n);

}  // namespace rewright
