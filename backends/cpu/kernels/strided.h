// Walking over elements of a tensor in the order of an iteration space, and sharing such a space among threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/common/layout.h"
#include "core/base/check.h"

namespace rewright::cpu {

// The elements that one operand contributes to the positions 0, 1, 2... of an iteration space, in row-major order of
// its axes. Axes that can be walked as one are merged.
class StridedReader {
 public:
  // `sizes` of the space; `strides` in elements, 0 where the operand repeats.
  StridedReader(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, size_t element_bytes);

  // Position p reads element p.
  bool contiguous() const { return contiguous_; }
  // Every position reads the first element.
  bool scalar() const { return scalar_; }

  // The distance of a position's element from the first one, in elements.
  int64_t OffsetAt(int64_t position) const;
  // The distance of the elements of two positions that are `distance` positions apart, the first of them a multiple of
  // `distance`: one number for all such pairs, or none.
  std::optional<int64_t> StepOf(int64_t distance) const;
  // dst[i] = element of position `start + i`, for i < count; `base` is the operand's first element.
  void Fill(void* dst, const void* base, int64_t start, int64_t count) const;

 private:
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  size_t element_bytes_;
  bool contiguous_ = false;
  bool scalar_ = false;
};

// Calls f with an element type of `bytes` bytes.
template <typename F>
auto VisitElement(size_t bytes, const F& f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: CHECK(bytes == 8) << bytes; return f(uint64_t{});
  }
}

// An axis along which one goes through two layouts at once, with its stride in each.
struct CopyAxis {
  int64_t size, from, to;
};

// The axes of layouts of equal dims, neither of them padded, by descending stride in `to`: none of size 1, channels cut
// into blocks where a layout has blocks, and axes that can be walked as one in both are one.
std::vector<CopyAxis> CopyAxes(const Layout& from, const Layout& to);

// Counts as channels what fills the last block of them.
inline Layout WithPadding(Layout layout) {
  if (layout.IsPadded()) layout.dims[1] = (layout.dims[1] + layout.block - 1) / layout.block * layout.block;
  return layout;
}

constexpr int kMaxAxes = 24;

constexpr int64_t kSharedElements = 16384;  // fewer are not worth a second thread, nor are their bytes
constexpr int64_t kSharedBytes = 65536;

// The number of threads for `work` that can be shared in `parts` parts: one if the work is less than `least`.
inline int ThreadsFor(int64_t work, int64_t least, int64_t parts, int threads) {
  return work < least ? 1 : static_cast<int>(std::min<int64_t>(threads, parts));
}

// Calls f(begin, end) for the part of 0..count-1 that each of `threads` threads has.
template <typename F>
void ForParts(int64_t count, int threads, const F& f) {
  if (threads <= 1) return f(int64_t{0}, count);
#pragma omp parallel num_threads(threads)
  {
    const int64_t all = omp_get_num_threads(), me = omp_get_thread_num();
    f(count * me / all, count * (me + 1) / all);
  }
}

// Calls f(i) for each of 0..count-1, which `threads` threads share.
template <typename F>
void ForEach(int64_t count, int threads, const F& f) {
  ForParts(count, threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace rewright::cpu
