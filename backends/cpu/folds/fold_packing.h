// Prepares what a block program of a fold reads: right factors in panels, and the ranges of reads. Threads share it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/folds/fold_plan.h"
#include "backends/cpu/folds/fold_ranges.h"

namespace rewright::cpu {

// Packs block `block` of one matrix of a right factor into scratch space. Buffers: the operands. False if its numbers
// are beyond what the plan computes exactly.
bool PackFactor(const FoldPlan& plan, const PackedFold& factor, void* const* buffers, float* scratch, int64_t matrix,
                int64_t block);

// Writes the ranges of one strip in all blocks. `unit`: the place of the read times the strips, plus the strip.
void FindRanges(const FoldPlan& plan, const RangedRead& ranged, void* const* buffers, float* scratch, int64_t unit);

// Returns the range of x[r * row + i * step] for r < rows, i < count.
Range RangeOf(const float* x, int64_t rows, int64_t count, int64_t row, int64_t step);
inline float GreatestOf(const Range& range) { return std::max(-range.low, range.high); }

}  // namespace rewright::cpu
