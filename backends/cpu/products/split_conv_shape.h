// Where the numbers of a convolution lie as it is computed on tiles of bf16 (split_conv.cc).
//
// A band, some rows of one image's results, is computed from a panel: the rows of the image that it reads, with the
// padding around them, in three parts each. Rows of a panel that lie a vertical stride apart are behind one another, so
// that the points of all results of a band lie the same distance apart, also from one row to the next. A few places at
// the end of each row are results of nothing. Padding on the right is that on the left of the next row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv.h"

namespace rewright::cpu {

struct SplitConvShape {
  SplitConvShape() = default;
  // `plain`: the images are not in blocks of channels.
  SplitConvShape(const ConvProblem& problem, bool plain);

  // Lays out panels for bands of at most that many rows of results.
  void SetBand(int64_t rows);

  int64_t images = 0, channels = 0, outputs = 0;
  int64_t height = 0, width = 0, out_height = 0, out_width = 0;
  int64_t kernel_rows = 0, kernel_columns = 0;
  int64_t top = 0, left = 0;
  int64_t down = 0, right = 0;                // dilations
  int64_t stride_down = 0, stride_right = 0;  // from a result to the next one, in points of the panel
  int64_t step_down = 0, step_right = 0;      // from a point of the panel to the next one, in points of the image
  // Few channels: the columns of a kernel's row are one run of the depth. Else each has its steps.
  bool runs = false;
  int64_t unit = 0;    // parts of one kind of a point, in a step of the depth or in all
  int64_t chunks = 0;  // of the channels, each with a panel of its own
  int64_t steps = 0;   // of the depth
  int64_t panels = 0;  // of the weights
  int64_t places = 0;  // of a row of results, those of nothing among them
  int64_t pitch = 0;   // points of a row of the panel

  // The layout of bands of `band` rows:
  int64_t band = 0;
  int64_t rows_of_phase = 0;  // of the panel, a stride apart
  int64_t points = 0;         // of the panel
  std::vector<int> offsets;   // of each step

  // Rows of the panel that `rows` rows of results read.
  int64_t RowsRead(int64_t rows) const { return (rows - 1) * stride_down + (kernel_rows - 1) * down + 1; }
  // The first point of a row of the panel.
  int64_t RowAt(int64_t row) const { return (row % stride_down * rows_of_phase + row / stride_down) * pitch; }
  // Points of a row's padding that the row before reads, too.
  int64_t PaddingBefore() const { return kernel_columns == 1 ? 0 : std::min(left, pitch); }
  // From a part of a number to the next one.
  int64_t part() const { return points * unit; }
  int64_t parts() const;
  int64_t parts_of_weights() const;
};

}  // namespace rewright::cpu
