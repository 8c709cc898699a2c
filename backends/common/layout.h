// The layout of a tensor's elements in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace rewright {

// Element i of a tensor lies `sum_k index_k(i) * strides[k]` elements after the first. Where `block` is not 0, axis 1
// (the channels) is cut into blocks: index_1 counts blocks, and the channel within its block is innermost, with
// stride 1 (the layout that oneDNN calls nChw8c or nChw16c). The last block may be partly padding, which is zero.
// Strides are not negative; an axis that repeats its elements has stride 0.
struct Layout {
  Shape dims;
  std::vector<int64_t> strides;
  int64_t block = 0;

  static Layout RowMajor(const Shape& dims);
  static Layout ChannelsLast(const Shape& dims);  // [n, c, h, w] with c innermost
  static Layout Blocked(const Shape& dims, int64_t block);

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t num_elements() const { return NumElements(dims); }
  bool blocked() const { return block != 0; }
  // Elements in row-major order without gaps.
  bool IsRowMajor() const;
  // Every place between the first element and the last holds exactly one element (in any order of the axes).
  bool IsDense() const;
  // Blocked with channels that do not fill the last block.
  bool IsPadded() const { return block != 0 && dims[1] % block != 0; }
  // Elements from the first to behind the last, padding included.
  int64_t Span() const;
  // For signatures: "n" for row-major, "b8" for dense blocked, else the strides.
  std::string ToString() const;
};

// The same place for every element; strides of axes of size one do not count.
bool operator==(const Layout& a, const Layout& b);
inline bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }

struct StridedAxis {
  int64_t size, stride;
};
// The axes with those that lie contiguously behind one another as one; axes of size one vanish.
std::vector<StridedAxis> MergedAxes(const Shape& dims, const std::vector<int64_t>& strides);

// The layout of a row-major reinterpretation with other sizes, when that needs no copy.
bool ReshapeLayout(const Layout& from, const Shape& dims, Layout* to);

// The axes, those furthest apart in memory first; axes of size one, whose stride says nothing, before all others. Equal
// strides keep their order. Not for blocked layouts.
std::vector<size_t> AxesByStride(const Layout& layout);

// A tensor as [outer, size, inner], where the axis in the middle is one of its own.
struct AxisSizes {
  int64_t outer = 1, size = 1, inner = 1;
};
AxisSizes SizesAround(const Shape& dims, size_t axis);

// The plain form of a blocked layout that has one: channels in order, because there is one point per image.
Layout Simplified(const Layout& layout);

}  // namespace rewright
