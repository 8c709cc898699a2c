#include "backends/cpu/kernels/strided.h"

#include <algorithm>
#include <cstring>

namespace rewright::cpu {
namespace {

// The first `have` elements again and again, up to `count`.
template <typename T>
void Repeat(T* dst, int64_t have, int64_t count) {
  while (have < count) {
    const int64_t more = std::min(have, count - have);
    std::memcpy(dst + have, dst, static_cast<size_t>(more) * sizeof(T));
    have += more;
  }
}

template <typename T>
void FillRun(T* dst, const T* src, int64_t stride, int64_t count) {
  if (stride == 1) {
    if (count == 8) {
      std::memcpy(dst, src, 8 * sizeof(T));
    } else if (count == 16) {
      std::memcpy(dst, src, 16 * sizeof(T));
    } else {
      std::memcpy(dst, src, static_cast<size_t>(count) * sizeof(T));
    }
  } else if (stride == 0) {
    const T value = *src;
    const int64_t single = std::min<int64_t>(count, 16);
    for (int64_t i = 0; i < single; ++i) dst[i] = value;
    Repeat(dst, single, count);
  } else {
    for (int64_t i = 0; i < count; ++i) dst[i] = src[i * stride];
  }
}

template <typename T>
void FillSpace(T* dst, const T* base, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
               int64_t start, int64_t count) {
  const int rank = static_cast<int>(sizes.size());
  int64_t index[kMaxAxes];
  int64_t offset = 0;
  for (int k = rank - 1; k >= 0; --k) {
    index[k] = start % sizes[k];
    start /= sizes[k];
    offset += index[k] * strides[k];
  }
  const int inner = rank - 1;
  const int64_t inner_size = sizes[inner], inner_stride = strides[inner];
  const bool repeats = inner > 0 && strides[inner - 1] == 0;  // channels, at every point of an image
  while (count > 0) {
    int64_t run = std::min(count, inner_size - index[inner]);
    FillRun(dst, base + offset, inner_stride, run);
    int next = inner - 1;
    if (repeats && index[inner] == 0 && run < count) {
      run = std::min(count, (sizes[next] - index[next]) * inner_size);
      Repeat(dst, inner_size, run);
      index[next--] = 0;  // if there is more it is behind the last repetition
    }
    dst += run;
    count -= run;
    offset -= index[inner] * inner_stride;
    index[inner] = 0;
    for (int k = next; k >= 0; --k) {
      const size_t axis = k;
      offset += strides[axis];
      if (++index[k] < sizes[axis]) break;
      offset -= sizes[axis] * strides[axis];
      index[k] = 0;
    }
  }
}

}  // namespace

std::vector<CopyAxis> CopyAxes(const Layout& from, const Layout& to) {
  CHECK(from.dims == to.dims) << ShapeString(from.dims) << " " << ShapeString(to.dims);
  CHECK(!from.IsPadded() && !to.IsPadded()) << from.ToString() << " " << to.ToString();
  CHECK(from.block == 0 || to.block == 0 || from.block == to.block) << from.ToString() << " " << to.ToString();
  const int64_t block = std::max(from.block, to.block);
  std::vector<CopyAxis> axes;
  for (size_t k = 0; k < from.dims.size(); ++k) {
    if (block == 0 || k != 1) {
      axes.push_back({from.dims[k], from.strides[k], to.strides[k]});
      continue;
    }
    const auto outer = [&](const Layout& layout) { return layout.strides[1] * (layout.block != 0 ? 1 : block); };
    const auto inner = [&](const Layout& layout) { return layout.block != 0 ? 1 : layout.strides[1]; };
    axes.push_back({from.dims[1] / block, outer(from), outer(to)});
    axes.push_back({block, inner(from), inner(to)});
  }
  std::erase_if(axes, [](const CopyAxis& axis) { return axis.size == 1; });
  std::stable_sort(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) { return a.to > b.to; });
  std::vector<CopyAxis> merged;
  for (const CopyAxis& axis : axes) {
    if (!merged.empty() && merged.back().from == axis.from * axis.size && merged.back().to == axis.to * axis.size) {
      merged.back() = {merged.back().size * axis.size, axis.from, axis.to};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

StridedReader::StridedReader(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                             size_t element_bytes)
    : element_bytes_(element_bytes) {
  for (const StridedAxis& axis : MergedAxes(sizes, strides)) {
    sizes_.push_back(axis.size);
    strides_.push_back(axis.stride);
  }
  if (sizes_.empty()) {
    sizes_ = {1};
    strides_ = {1};
  }
  CHECK(sizes_.size() <= kMaxAxes) << sizes_.size();
  contiguous_ = sizes_.size() == 1 && strides_[0] == 1;
  scalar_ = sizes_.size() == 1 && (strides_[0] == 0 || sizes_[0] == 1);
}

int64_t StridedReader::OffsetAt(int64_t position) const {
  int64_t offset = 0;
  for (size_t k = sizes_.size(); k-- > 1;) {
    offset += position % sizes_[k] * strides_[k];
    position /= sizes_[k];
  }
  return offset + position * strides_[0];
}

std::optional<int64_t> StridedReader::StepOf(int64_t distance) const {
  if (scalar_) return 0;
  if (sizes_.size() == 1) return distance * strides_[0];
  if (sizes_.size() == 2 && distance == sizes_[1]) return strides_[0];
  return std::nullopt;
}

void StridedReader::Fill(void* dst, const void* base, int64_t start, int64_t count) const {
  VisitElement(element_bytes_, [&](auto element) {
    using T = decltype(element);
    FillSpace(static_cast<T*>(dst), static_cast<const T*>(base), sizes_, strides_, start, count);
  });
}

}  // namespace rewright::cpu
