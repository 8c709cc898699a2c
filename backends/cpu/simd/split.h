// Products of f32 as products of bf16, on the tiles of a processor that has them (AMX).
//
// A number of f32, of 24 digits, is exactly the sum of three of bf16, of 8 digits each: high, middle and low. Six of
// the nine products of two numbers' parts are summed, in f32; the three others are below 2^-24 of the product together,
// so that the result is as exact as a sum of products of f32 (Henry, Tang and Heinecke, Leveraging the bfloat16
// artificial intelligence datatype for higher-precision computations, 2019). Tiles take parts below 2^-126 for 0:
// factors are to be in a range in which this does not show, and every function that splits numbers tells their
// magnitudes.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {

// The magnitudes of numbers of an image that were split. A point's numbers in a step of the depth are tiny where one is
// not 0 and all are below kLeastLeft.
struct SplitRange {
  alignas(64) int most[16] = {};
  bool has_tiny = false;
};

// The rows of a block of a convolution: split numbers, of which a step of the depth reads kDepth at the row's place.
struct SplitWindows {
  const unsigned short* first = nullptr;  // the high parts of the first row
  long row = 0, part = 0;                 // from a row to the next one, from a part to the next one
  const int* offsets = nullptr;           // of every step
  long steps = 0;
};

// Sums of a block that are to be finished and written to an image in blocks of 16 channels.
struct SplitSums {
  const float* sums = nullptr;   // rows of kColumns
  const int* points = nullptr;   // of each row the point of the image that it is; negative: none
  long rows = 0;                 // 0: nothing
  ConvEpilogue epilogue;         // its residual begins where the image does
  long channel = 0, blocks = 0;  // the first one; blocks from there on, 1 or 2
  long plane = 0;                // floats of a block
  float* image = nullptr;        // at the first one's block
};

// Magnitudes are the bits of f32 without the sign, which are ordered as the numbers are, infinity and NaN behind all.
struct SplitTable {
  // Rows of the left factor and columns of the right one that a block has at most, and the unit of its depth.
  static constexpr long kRows = 32, kColumns = 32, kDepth = 32, kParts = 3;
  static constexpr long kLineParts = 32;  // of a line of the cache
  // Numbers of a weight at most: parts take six bytes in place of four, which models of large weights have not to
  // spare.
  static constexpr long kMostWeights = long{4} << 20;
  static constexpr long kSerialTerms = 1 << 20;  // fewer do not pay for the threads' meeting
  // Magnitudes of a row's or a factor's greatest number between which products are as exact as those of f32, whatever
  // the other factor is: the smallest parts of what matters beside it are above 2^-126, and sums do not overflow.
  static constexpr float kLeastLeft = 0x1p-50f, kLeastRight = 0x1p-40f, kLargest = 0x1p30f;

  // A thread's first and last call, around all that follow.
  void (*begin)();
  void (*end)();

  // Splits `rows` <= kRows rows of a left factor, element (i, k) is factor * x[i * row + k * step], 0 behind the depth.
  // Steps of the depth lie behind one another, kParts * kRows * kDepth parts each. `most`: 16 magnitudes of each row
  // are raised to its own.
  void (*split_rows)(const float* x, long row, long step, float factor, long rows, long depth, unsigned short* parts,
                     int* most);
  // True if the greatest magnitude of each row is 0 or least <= it <= largest.
  bool (*are_within)(const int* most, long rows, float least, float largest);

  // Packs a right factor, element (k, j) at b[k * step + j * column], into panels of kColumns columns, 0 behind its
  // depth and columns. A panel has kParts * kColumns * kDepth parts for each step of the depth. Returns the greatest
  // magnitude.
  int (*pack)(const float* b, long depth, long columns, long step, long column, unsigned short* panels);

  // c (+)= a * b for rows that split_rows has split and one panel of `steps` steps. c has all columns of the panel, in
  // whole vectors of 16, and 16 rows, or 32 where there are more; element (i, j) at c[i * c_row + j]. `ahead`: memory
  // that is read soon, of which every step asks for `lines` lines of 64 bytes, one behind the other.
  void (*block)(const unsigned short* a, long rows, const unsigned short* panel, long steps, float* c, long c_row,
                long columns, bool accumulate, const unsigned short* ahead, long lines);
};

// The same of convolutions.
struct SplitConvTable {
  // Splits `count` points, each with 16 numbers at low + i * step and 16 at high + i * step (null: zeros), to kDepth
  // parts at parts + i * kDepth; the parts of a number lie `part` apart.
  void (*split_points)(const float* low, const float* high, long step, long count, unsigned short* parts, long part,
                       SplitRange* range);
  // Splits n numbers, a multiple of kDepth, which lie behind one another as their parts do. Each is tiny alone.
  void (*split_line)(const float* x, long n, unsigned short* parts, long part, SplitRange* range);
  // sums[kRows, kColumns] = windows * panel, of 16 rows and of 16 columns where `down` and `right` are false. Meanwhile
  // `before` is finished. `ahead`, `lines`: as SplitTable::block has it.
  void (*block)(const SplitWindows& windows, const unsigned short* panel, bool down, bool right, float* sums,
                const SplitSums& before, const unsigned short* ahead, long lines);
  void (*finish)(const SplitSums& sums);
};

// Null where the machine has no such tiles, the system does not lend them, or oneDNN may not use them.
const SplitTable* SplitProducts();
const SplitConvTable* SplitConvs();

namespace simd_avx512 {
extern const SplitTable kSplitTable;
extern const SplitConvTable kSplitConvTable;
}  // namespace simd_avx512

}  // namespace rewright::cpu
