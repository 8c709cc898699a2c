// The kernel of products and convolutions of 8-bit integers (quantized.h), which are read and written as bytes: a
// factor is x - zero, so that
//   sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + k za zb,
// where a is taken without a sign and b with one, as AVX-512 VNNI multiplies them. The sums over b are known for
// weights, and zb is 0 there. All sums wrap, as those of the interpreter do. Images have their channels innermost: with
// a margin of zero points around them, a window is a few pieces of memory, which the inner loop reads where they lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/fuse/quantized.h"
#include "backends/cpu/simd/simd.h"
#include "core/device/device.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {

constexpr int64_t kTaskRows = 48;  // that one panel is multiplied with before the next

// The form in which the elements of a factor are read as bytes without a sign: x, x + 128 of an i8, x - zero + zero.
struct FactorBytes {
  DType dtype = DType::kUInt8;
  bool is_difference = false;
  bool zero_at_run = false;  // a buffer has it
  int zero = 0;

  int offset() const { return dtype == DType::kInt8 ? 128 : 0; }
  // Calls f with the element at an offset as a byte; `zero` is that of the bytes.
  template <typename F>
  void Read(const void* from, int zero_of_bytes, const F& f) const {
    if (is_difference) {
      f([x = static_cast<const int32_t*>(from), zero_of_bytes](int64_t i) {
        return static_cast<uint8_t>(x[i] + zero_of_bytes);
      });
    } else {
      f([x = static_cast<const uint8_t*>(from), flip = static_cast<uint8_t>(offset())](int64_t i) {
        return static_cast<uint8_t>(x[i] ^ flip);
      });
    }
  }
};

// Where the left factor lies, and where it is laid anew as bytes: rows with a depth that is a multiple of four, or
// images with a margin. In elements, or bytes.
struct LeftRows {
  std::vector<int64_t> starts;  // of distinct matrices
  int64_t rows = 0, row = 0, step = 0;
};
struct LeftImages {
  int64_t images = 0, channels = 0, height = 0, width = 0;
  int64_t image = 0, channel = 0, row = 0, column = 0;  // strides
  int64_t top = 0, left = 0, laid_height = 0, laid_width = 0, laid_channels = 0;
};

// Neighbouring rows of the result, whose left rows are equally far apart.
struct Line {
  int64_t a = 0, c = 0, b = 0, rows = 0;  // places in bytes and elements, number of the right matrix, count
};

struct ByteProblem {
  FactorBytes left, right;
  bool conv = false;
  bool direct = false;  // the left bytes are used where they lie
  LeftRows matrices;
  LeftImages images;
  std::vector<long> segments;  // of a row (simd.h)
  int64_t segment_depth = 0, a_row = 0;
  int64_t depth = 0, columns = 0, threads = 1;
  std::vector<Line> lines;
  // The right factor: packed beforehand, or matrices at these places.
  bool packed = false;
  int right_zero = 0;  // of the packed bytes
  std::vector<int64_t> right_starts;
  int64_t right_row = 0, right_column = 0;
  std::optional<QuantizedProduct::Requantized> requantized;

  int64_t fours() const { return static_cast<int64_t>(segments.size()) * segment_depth; }
  int64_t panels() const { return AlignUp(columns, Simd().gemm_columns) / Simd().gemm_columns; }
  int64_t panel_bytes() const { return fours() * 4 * Simd().gemm_columns; }
  int64_t laid_columns() const { return panels() * Simd().gemm_columns; }
  int64_t left_bytes() const {
    if (direct) return 0;
    if (!conv) return static_cast<int64_t>(matrices.starts.size()) * matrices.rows * a_row;
    return images.images * images.laid_height * images.laid_width * images.laid_channels;
  }
};

// The sums of the columns of a panel: its product with ones.
void ColumnSums(const ByteProblem& problem, const int8_t* panel, int32_t* sums);

// A panel of bytes with a sign, f(k, column), from a k on that four divides; `count` columns are given. k counts the
// laid depth.
template <typename F>
void PackPanel(const ByteProblem& problem, int64_t first, int64_t count, const F& f, int8_t* panel) {
  const int64_t width = Simd().gemm_columns;
  std::fill(panel + first * width, panel + problem.panel_bytes(), int8_t{0});
  for (int64_t k = first; k < problem.fours() * 4; ++k) {
    int8_t* const to = panel + k / 4 * 4 * width + k % 4;
    for (int64_t j = 0; j < count; ++j) to[4 * j] = f(k, j);
  }
}

// Buffers: left, [its zero point], right or its panels, [its zero point], column sums and biases of panels, [factors],
// scratch of scratch_bytes bytes, the result.
struct ByteProduct {
  std::unique_ptr<Kernel> kernel;
  int64_t scratch_bytes = 0;
};
ByteProduct MakeByteProduct(ByteProblem problem);

}  // namespace rewright::cpu
