#include "backends/cpu/folds/fold_packing.h"

#include <cmath>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/split.h"

namespace rewright::cpu {

Range RangeOf(const float* x, int64_t rows, int64_t count, int64_t row, int64_t step) {
  Range range{*x, *x};
  const auto take = [&](float low, float high) {
    range.low = low < range.low || std::isnan(low) ? low : range.low;
    range.high = high > range.high || std::isnan(high) ? high : range.high;
  };
  for (int64_t r = 0; r < rows && !std::isnan(range.low); ++r) {
    const float* const line = x + r * row;
    if (step == 1) {
      float low = 0, high = 0;
      Simd().join_rows[kJoinMin](&low, line, count, 1, count);
      Simd().join_rows[kJoinMax](&high, line, count, 1, count);
      take(low, high);
    } else {
      for (int64_t i = 0; i < count; ++i) take(line[i * step], line[i * step]);
    }
  }
  return std::isnan(range.low) || std::isnan(range.high) ? Range() : range;
}

bool PackFactor(const FoldPlan& plan, const PackedFold& factor, void* const* buffers, float* scratch, int64_t matrix,
                int64_t block) {
  const FoldRead& read = plan.reads[static_cast<size_t>(factor.value)];
  const int64_t first = block * plan.loop_block, count = std::min(plan.loop_block, plan.loop - first);
  const float* const from =
      static_cast<const float*>(buffers[read.operand]) + factor.starts[static_cast<size_t>(matrix)] + first * read.loop;
  float* const to = scratch + factor.offset + (matrix * plan.blocks() + block) * factor.floats;
  const int64_t depth = factor.along_depth ? count : factor.depth;
  const int64_t columns = factor.along_depth ? factor.columns : count;
  const int64_t step = factor.along_depth ? read.loop : read.inner;
  const int64_t column = factor.along_depth ? read.column : read.loop;
  if (plan.skips) {
    const Range range =
        step == 1 ? RangeOf(from, columns, depth, column, step) : RangeOf(from, depth, columns, step, column);
    scratch[factor.most + matrix * plan.blocks() + block] = GreatestOf(range);
  }
  if (!plan.splits) {
    PackMatmulWeights(from, depth, columns, step, column, to);
    return true;
  }
  alignas(64) int most[kLineFloats] = {};
  most[0] = SplitProducts()->pack(from, depth, columns, step, column, reinterpret_cast<uint16_t*>(to));
  return SplitProducts()->are_within(most, 1, SplitTable::kLeastRight, SplitTable::kLargest);
}

void FindRanges(const FoldPlan& plan, const RangedRead& ranged, void* const* buffers, float* scratch, int64_t unit) {
  const FoldRead& read = plan.reads[static_cast<size_t>(ranged.value)];
  const int64_t first_row = unit % plan.strips() * plan.strip;
  const int64_t rows = read.row == 0 ? 1 : std::min(plan.strip, plan.rows - first_row);
  const int64_t start = ranged.starts[static_cast<size_t>(unit / plan.strips())] + first_row * read.row;
  float* to = scratch + ranged.offset + 2 * unit * plan.blocks();
  for (int64_t first = 0; first < plan.loop; first += plan.loop_block, to += 2) {
    const int64_t count = std::min(plan.loop_block, plan.loop - first), at = start + first * read.loop;
    Range range;
    if (read.element_bytes == 1) {
      const auto* const truths = static_cast<const uint8_t*>(buffers[read.operand]) + at;
      unsigned any = 0, all = 1;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < count; ++i) {
          any |= truths[r * read.row + i * read.loop];
          all &= truths[r * read.row + i * read.loop];
        }
      }
      range = {static_cast<float>(all), static_cast<float>(any)};
    } else {
      range = RangeOf(static_cast<const float*>(buffers[read.operand]) + at, rows, count, read.row, read.loop);
    }
    to[0] = range.low, to[1] = range.high;
  }
}

}  // namespace rewright::cpu
