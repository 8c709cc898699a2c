#include "backends/cpu/products/split_conv_shape.h"

#include <algorithm>

#include "backends/cpu/simd/split.h"

namespace rewright::cpu {
namespace {

int64_t Quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

SplitConvShape::SplitConvShape(const ConvProblem& problem, bool plain)
    : images(problem.src[0]),
      channels(problem.src[1]),
      outputs(problem.dst[1]),
      height(problem.src[2]),
      width(problem.src[3]),
      out_height(problem.dst[2]),
      out_width(problem.dst[3]),
      kernel_rows(problem.weights[2]),
      kernel_columns(problem.weights[3]),
      top(problem.pads[0]),
      left(problem.pads[1]),
      down(problem.dilations[0]),
      right(problem.dilations[1]) {
  // A kernel of one row, or column, reads the stride's multiples alone.
  stride_down = kernel_rows == 1 ? 1 : problem.strides[0];
  step_down = kernel_rows == 1 ? problem.strides[0] : 1;
  stride_right = kernel_columns == 1 ? 1 : problem.strides[1];
  step_right = kernel_columns == 1 ? problem.strides[1] : 1;
  const int64_t of_run = Quotient(kernel_columns * channels, SplitTable::kDepth);
  const bool fewer = (kernel_columns == 1 || right == 1) && of_run < kernel_columns;
  runs = plain || (channels < SplitTable::kDepth && fewer);
  unit = runs ? channels : SplitTable::kDepth;
  chunks = runs ? 1 : Quotient(channels, SplitTable::kDepth);
  steps = runs ? kernel_rows * of_run : chunks * kernel_rows * kernel_columns;
  panels = Quotient(outputs, SplitTable::kColumns);
  if (kernel_columns == 1) {
    pitch = places = out_width;
    return;
  }
  // The results of a row read up to `reach`; the padding behind the image is that before the next row.
  const int64_t reach = (out_width - 1) * stride_right + (kernel_columns - 1) * right + 1;
  const int64_t least = std::max(reach - left, left + std::min(width, std::max<int64_t>(reach - left, 0)));
  places = std::max(out_width, Quotient(least, stride_right));
  pitch = places * stride_right;
}

void SplitConvShape::SetBand(int64_t rows) {
  band = rows;
  rows_of_phase = Quotient(RowsRead(rows), stride_down);
  // One row more, whose padding is read, and what the last block reads for results of nothing.
  const int64_t behind = SplitTable::kRows * stride_right + kernel_columns * right + SplitTable::kDepth;
  points = (stride_down * rows_of_phase + 1) * pitch + behind;
  if (runs) points = Quotient(points, SplitTable::kDepth) * SplitTable::kDepth;
  offsets.clear();
  const int64_t of_run = Quotient(kernel_columns * channels, SplitTable::kDepth);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (int64_t r = 0; r < kernel_rows; ++r) {
      const int64_t row = SplitTable::kParts * chunk * part() + RowAt(r * down) * unit;
      for (int64_t s = 0; runs ? s < of_run : s < kernel_columns; ++s) {
        offsets.push_back(static_cast<int>(row + (runs ? s * SplitTable::kDepth : s * right * unit)));
      }
    }
  }
}

int64_t SplitConvShape::parts() const { return SplitTable::kParts * chunks * part(); }
int64_t SplitConvShape::parts_of_weights() const {
  return SplitTable::kParts * SplitTable::kColumns * SplitTable::kDepth * panels * steps;
}

}  // namespace rewright::cpu
