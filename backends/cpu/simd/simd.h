// Vectorized inner loops on f32, compiled once per instruction set and chosen when the program starts.
//
// kernels.inc is compiled by simd_base.cc (SSE2), simd_avx2.cc (AVX2, FMA) and simd_avx512.cc (AVX-512 F/BW/DQ/VL),
// each with the compiler flags of its instruction set. Those files and this header include nothing else but the names
// of functions.def and types of <utility>: an inline function of a common header, compiled there, could be picked by
// the linker for the whole program.
#pragma once

namespace rewright::cpu {

// Elementwise operations on tiles. Comparisons write and `kSelect` reads one byte per truth value.
enum TileOp : int {
// The scalar functions, by their numbers as Fn.
#define REWRIGHT_REAL(Id, ...) kTile##Id,
#define REWRIGHT_UNARY(Id, ...) kTile##Id,
#define REWRIGHT_BINARY(Id, ...) kTile##Id,
#include "core/ir/functions.def"
  kTileSelect,
  kTileCopy,
  kNumTileOps,
};

// The operation that joins elements to one number.
enum TileJoin : int { kJoinSum, kJoinMax, kJoinMin };

// dst[i] = op(a[i], b[i], c[i]) for i < n. dst may be one of the operands.
using TileFn = void (*)(void* dst, const void* a, const void* b, const void* c, long n);

constexpr int kLineFloats = 16;  // of a line of cache

// The epilogue of a convolution on blocked images: (result + bias) * scale + shift + residual, then relu or a clip.
struct ConvEpilogue {
  const float *bias = nullptr, *scale = nullptr, *shift = nullptr;  // by output channel; null: none
  const float* residual = nullptr;                                  // laid out like the result
  bool relu = false, clips = false;
  float low = 0, high = 0;  // of a clip
};

struct SimdTable {
  const char* name;
  int lanes;  // f32 elements of a vector register

  TileFn f32[kNumTileOps];  // null where there is no vectorized form
  // The same where b is one number for all elements; of exp, that of the difference a - b.
  TileFn f32_by_number[kNumTileOps];
  // The same for `rows` rows of n elements, with b[r * b_step] for row r; null where f32_by_number is.
  void (*f32_by_numbers[kNumTileOps])(float* dst, long dst_row, const float* a, long a_row, const float* b, long b_step,
                                      long rows, long n);

  // x[i] = f(x[i]), f in the order of Activation (backends/cpu/fuse/fusion.h).
  void (*activate[8])(float* x, long n, float alpha, float beta);

  // bf16 to f32 and back, rounded to the nearest, halves to the even one; NaN stays NaN (core/tensor/float16.h).
  void (*widen_bf16)(float* out, const unsigned short* x, long n);
  void (*narrow_bf16)(unsigned short* out, const float* x, long n);

  // Rows of n contiguous elements.
  float (*row_max)(const float* x, long n);
  bool (*row_is_finite)(const float* x, long n);
  // A reduction by sums, maxima or minima in pieces, in the order of TileJoin: 4 * lanes numbers take in one element
  // after the other, element i the number i % (4 * lanes), and are put together at the end. One that is NaN stays.
  void (*start_join[3])(float* numbers);
  void (*join_row[3])(float* numbers, const float* x, long n);
  float (*join_all[3])(const float* numbers);
  // numbers[r] = the n elements x[r * row].. joined, for r < rows.
  void (*join_rows[3])(float* numbers, const float* x, long row, long rows, long n);
  // out[r * out_row + i] = exp(x[r * row + i] - y[r * y_step]) for r < rows, i < n; sums[r] is their sum (null: not
  // wanted).
  void (*exp_rows)(float* out, long out_row, const float* x, long row, const float* y, long y_step, float* sums,
                   long rows, long n);
  // out[i] = exp(x[i] - max) / sum, and its logarithm; out may be x.
  void (*softmax_row)(float* out, const float* x, long n);
  void (*log_softmax_row)(float* out, const float* x, long n);
  // out[i] = (x[i] - mean) / sqrt(variance + epsilon) * scale[i] + bias[i]; out may be x.
  void (*layer_norm_row)(float* out, const float* x, const float* scale, const float* bias, long n, float epsilon);

  // x = x * factor + factor, `count` times on multiply_add_vectors vectors that lie in registers; gives their sum.
  int multiply_add_vectors;
  float (*multiply_adds)(float factor, long count);
  // All bits that are set in one of the `count` numbers, a multiple of load_floats: loads, and as little else as can
  // be.
  int load_floats;
  int (*loads)(const float* x, long count);

  // One row of pooled outputs over `rows` input rows that lie inside the image, `row_step` elements apart; a point is
  // `block` (a multiple of `lanes`) channels. Output i sees columns i*stride - before + k*dilation, k < kernel, as far
  // as they lie within 0..width-1, and takes their maximum, or their sum over `count_all` points (0: over those seen).
  struct PoolRow {
    long width, out_width, rows, row_step, kernel, stride, before, dilation, block;
    float count_all;
  };
  void (*pool_max_row)(float* out, const float* x, const PoolRow& row);
  void (*pool_sum_row)(float* out, const float* x, const PoolRow& row);
  // The gradient of a maximum: to `out`, laid out like x, each output's cotangent in u is added where the maximum is.
  void (*pool_max_grad_row)(float* out, const float* x, const float* u, const PoolRow& row);
  // One row of the results of a convolution whose groups have 2 channels and as many results, or 4 ([1]), on the first
  // vector of channels from `channel` on; `block` is `lanes`, count_all is not read. weights: of each kernel row in
  // `rows`, each kernel column and each channel of a group, one vector of results.
  void (*grouped_row[2])(float* out, const float* x, const float* weights, const PoolRow& row,
                         const ConvEpilogue& epilogue, long channel);

  // Matrix product of one block: c[rows x 1 panel] (+)= a * b.
  //   a: `rows` <= gemm_rows rows, element (i, k) at a[i * a_row + k * a_step];
  //   b: a packed panel, element (k, j) at b[k * gemm_columns + j];
  //   c: element (i, j) at c[i * c_row + j], `columns` <= gemm_columns of them are written.
  // `accumulate`: adds to c; else starts from bias[j] (null: 0).
  // `ahead`: `lines` lines of 64 bytes (two for each k at most) go to the second cache from there on, for a later call.
  int gemm_rows;
  int gemm_columns;
  void (*gemm_block)(const float* a, long a_row, long a_step, const float* b, long depth, float* c, long c_row,
                     long rows, long columns, bool accumulate, const float* bias, const float* ahead, long lines);
  // The same of integers, c = a * b, in sums that wrap: a and b hold either 32-bit integers, or (pair_block) pairs of
  // 16-bit ones that lie one behind the other in k; `depth` counts integers or pairs, and a_step is 1.
  void (*int_block)(const int* a, long a_row, const int* b, long depth, int* c, long c_row, long rows, long columns);
  void (*pair_block)(const int* a, long a_row, const int* b, long depth, int* c, long c_row, long rows, long columns);
  // The same of bytes, those of a without a sign, those of b with one, four of which lie one behind the other in k. A
  // row of a is made of `segments` pieces of `depth` fours, which begin at these offsets from its start; rows are `row`
  // bytes apart. b is one panel for all of them. c holds int, or bytes where the sums are made some (ByteSums).
  struct ByteRows {
    const unsigned char* first;
    long row;
    const long* offsets;
    long segments, depth;
  };
  struct ByteSums {
    const int* row;        // added to the sums of a row; null: nothing
    const int* column;     // added to the sums of a column; gemm_columns of them, as in the factors
    const float* factor;   // null: the sums are the result
    int point, low, high;  // else min(max(round(factor * sum) + point, low), high), halves to the even one, in a byte
  };
  void (*byte_block)(const ByteRows& a, const signed char* b, void* c, long c_row, long rows, long columns,
                     const ByteSums& sums);
  // y[j] = sum k: x[k] * b[k * gemm_columns + j] + bias[j]: one row against one panel; memory-bound, so it streams.
  void (*gemv_panel)(const float* x, const float* b, long depth, float* y, long columns, const float* bias);

  // Columns of weights (field - zero point) * scale, where fields of `bits` (4 or 8) bits lie in runs of 64 bytes, 16
  // places of 32 bits: field f of place p of run r is number (r * 32 / bits + f) * 16 + p along the depth. A column
  // has whole runs. Its groups, of 16 << group_shift numbers, have a scale each, and a zero point, or all the same.
  struct NarrowColumns {
    const unsigned char* codes;
    const float* scales;         // `groups` of each column
    const unsigned char* zeros;  // likewise; null: all are `zero`
    float zero;
    long depth, column_bytes, groups;
    int bits, group_shift;
  };
  // c[i * c_row + j] = sum k: x[i * x_row + k] * w[k, j]. Rows of x have zeros behind their end, up to 16 numbers.
  void (*narrow_product)(const float* x, long x_row, const NarrowColumns& w, long rows, long columns, float* c,
                         long c_row);
  // out[k] = w[first + k, column] for k < depth, up to 16 numbers; `first` is at the begin of a run.
  void (*narrow_column)(const NarrowColumns& w, long column, long first, long depth, float* out);
};

// The widest that this machine has and oneDNN may use.
const SimdTable& Simd();
// Returns whether the machine multiplies bf16 and oneDNN may use that. (Where it does not, oneDNN's convolutions of
// bf16 are slower than those of f32.)
bool MultipliesBf16();
// Returns whether it multiplies tiles of bf16 (AMX), which oneDNN does of images with channels last.
bool MultipliesTilesOfBf16();

namespace simd_base {
extern const SimdTable kTable;
}
namespace simd_avx2 {
extern const SimdTable kTable;
}
namespace simd_avx512 {
extern const SimdTable kTable;
}

}  // namespace rewright::cpu
