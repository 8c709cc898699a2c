// The sizes, places and steps in memory with which the kernel of folds (fold_group.cc) runs a block program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/common/layout.h"
#include "backends/cpu/folds/folds.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/simd/split.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {

inline constexpr unsigned kRowAxis = BlockProgram::kRow, kLoopAxis = BlockProgram::kLoop,
                          kColumnAxis = BlockProgram::kColumn;

// An operand's element at a position: where it begins at each parallel point, and its steps along the axes of a block,
// in elements.
struct FoldRead {
  int operand = -1;
  int64_t element_bytes = 4;
  std::vector<int64_t> starts;  // by parallel point
  int64_t row = 0, loop = 0, column = 0, inner = 0;
};

// The ranges (fold_ranges.h) of what is read at each position of rows and loop: by place where it begins, strip and
// block of the loop, low and high.
struct RangedRead {
  int value = -1;
  std::vector<int64_t> slots, starts;  // by parallel point its place; by place where it begins
  int64_t offset = 0;                  // in scratch space
};

// The right factor of a product, a matrix [depth, columns] for each block of the loop.
struct PackedFold {
  int value = -1;                      // the read
  bool along_depth = false;            // the loop runs along the depth, else along the columns
  int64_t depth = 0, columns = 0;      // of a whole block
  std::vector<int64_t> slots, starts;  // by parallel point its matrices; by matrices where they begin
  int64_t floats = 0;                  // of a block; of parts, where products are split
  int64_t offset = 0;                  // of the first one in scratch space
  int64_t most = 0;                    // there, of each block: the greatest magnitude
};

// Where a phase of the program keeps the values that it computes: offsets in the thread's space.
struct FoldSlots {
  std::vector<int64_t> at;  // by value; -1: it needs none
};

inline int64_t WholeLines(int64_t n) { return AlignUp(n, kLineFloats); }

struct FoldPlan {
  BlockProgram program;
  int64_t points = 1, rows = 1, loop = 1, columns = 1;
  int64_t strip = 1, row_block = 1, loop_block = 1, column_floats = 16;
  std::vector<FoldRead> reads;      // by value
  std::vector<float> numbers;       // by value
  std::vector<float> left_factors;  // by value: of a product, what its left factor is multiplied by
  bool skips = false;               // blocks that leave all carried numbers unchanged
  std::vector<RangedRead> ranged;   // where it does
  std::vector<PackedFold> packed;
  std::vector<int> packed_of;  // by value, its place in `packed`; -1: none
  std::vector<bool> in_place;  // by carried number: the repair is computed where the number lies
  FoldRead out;
  int num_operands = 0;  // buffers
  bool splits = false;   // products run on tiles, of numbers split in parts (simd/split.h)
  int threads = 1;
  // Floats of scratch space: all that is packed, then of each thread the carried numbers, and slots.
  int64_t packed_floats = 0, thread_floats = 0;
  std::vector<int64_t> before, behind;  // by carried number: a block of rows of it, old and new (one where by columns)
  FoldSlots slots[2];                   // of the loop, of the element
  int64_t block_numbers = 0, fills[3] = {};
  // Where products are split: by product, its left factor's parts for each strip of a block of rows; parts of one body;
  // magnitudes of the rows of a left factor, and by carried number of a block of rows of its bodies; a packed factor of
  // a strip that is computed anew.
  std::vector<int64_t> left_parts, body_most;
  int64_t body_parts = 0, left_most = 0, anew = 0;
  std::vector<int64_t> left_bounds;  // where blocks are skipped, by product: the greatest magnitude of each left strip

  int64_t blocks() const { return (loop + loop_block - 1) / loop_block; }
  int64_t row_blocks() const { return (rows + row_block - 1) / row_block; }
  int64_t strips() const { return (rows + strip - 1) / strip; }
  int64_t tasks() const { return points * row_blocks(); }
  int64_t scratch_floats() const { return packed_floats + threads * thread_floats; }
  // Floats of a value, and of one row of it.
  int64_t LineOf(unsigned axes) const {
    if (axes & kLoopAxis) return WholeLines(loop_block);
    if (axes & kColumnAxis) return column_floats;
    return axes & kRowAxis ? WholeLines(strip) : FillFloats();
  }
  int64_t FillFloats() const { return WholeLines(std::max({loop_block, columns, strip})); }
  static bool HasRows(unsigned axes) { return (axes & kRowAxis) && (axes & (kLoopAxis | kColumnAxis)); }
  int64_t FloatsOf(unsigned axes) const { return LineOf(axes) * (HasRows(axes) ? strip : 1); }
  // Floats that the parts of a strip of a left factor take, and those of a right one.
  static int64_t LeftPartFloats(int64_t depth) { return SplitSteps(depth) * kStepFloats; }
  static int64_t RightPartFloats(int64_t depth, int64_t columns) {
    return SplitSteps(depth) * kStepFloats * ((columns + SplitTable::kColumns - 1) / SplitTable::kColumns);
  }
  static int64_t SplitSteps(int64_t depth) { return (depth + SplitTable::kDepth - 1) / SplitTable::kDepth; }
  static constexpr int64_t kStepFloats = SplitTable::kParts * SplitTable::kRows * SplitTable::kDepth / 2;
};

// Plans one application: `operands` are the layouts of the fold's operands, in order. Products are split only where
// `splits` allows it, and where tiles are filled well.
FoldPlan PlanFold(const GroupFold& fold, const std::vector<Layout>& operands, const Layout& out, int threads,
                  bool splits);

}  // namespace rewright::cpu
