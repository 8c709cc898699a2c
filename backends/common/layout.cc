#include "backends/common/layout.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rewright {
namespace {

// A blocked layout as a plain one with one more axis: [n, c / block, ..., block]. Not for padded layouts.
Layout Unblocked(const Layout& layout) {
  CHECK(layout.block != 0 && !layout.IsPadded()) << layout.ToString();
  Layout plain{layout.dims, layout.strides, 0};
  plain.dims[1] /= layout.block;
  plain.dims.push_back(layout.block);
  plain.strides.push_back(1);
  return plain;
}

}  // namespace

Layout Layout::RowMajor(const Shape& dims) {
  Layout layout{dims, std::vector<int64_t>(dims.size(), 1), 0};
  int64_t stride = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    layout.strides[k] = stride;
    stride *= std::max<int64_t>(dims[k], 1);
  }
  return layout;
}

Layout Layout::ChannelsLast(const Shape& dims) {
  Layout layout = RowMajor(dims);
  layout.strides = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
  return layout;
}

Layout Layout::Blocked(const Shape& dims, int64_t block) {
  CHECK(dims.size() >= 2 && block > 0) << ShapeString(dims);
  Layout layout{dims, std::vector<int64_t>(dims.size(), 1), block};
  int64_t stride = block;
  for (size_t k = dims.size(); k-- > 2;) {
    layout.strides[k] = stride;
    stride *= dims[k];
  }
  layout.strides[1] = stride;
  layout.strides[0] = stride * ((dims[1] + block - 1) / block);
  return layout;
}

bool Layout::IsRowMajor() const { return block == 0 && *this == RowMajor(dims); }

bool Layout::IsDense() const {
  if (IsPadded()) return false;
  if (block != 0) return Unblocked(*this).IsDense();
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] != 1) axes.emplace_back(strides[k], dims[k]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : axes) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

int64_t Layout::Span() const {
  int64_t last = block != 0 ? block - 1 : 0;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t size = block != 0 && k == 1 ? (dims[1] + block - 1) / block : dims[k];
    if (size == 0) return 0;
    last += (size - 1) * strides[k];
  }
  return last + 1;
}

std::string Layout::ToString() const {
  if (IsRowMajor()) return "n";
  if (block != 0 && *this == Blocked(dims, block)) return absl::StrCat("b", block);
  return absl::StrCat(block != 0 ? absl::StrCat("b", block) : "", "<", absl::StrJoin(strides, ","), ">");
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.dims != b.dims || a.block != b.block) return false;
  for (size_t k = 0; k < a.dims.size(); ++k) {
    const int64_t size = a.block != 0 && k == 1 ? (a.dims[1] + a.block - 1) / a.block : a.dims[k];
    if (size > 1 && a.strides[k] != b.strides[k]) return false;
  }
  return true;
}

std::vector<StridedAxis> MergedAxes(const Shape& dims, const std::vector<int64_t>& strides) {
  std::vector<StridedAxis> merged;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == 1) continue;
    if (!merged.empty() && merged.back().stride == strides[k] * dims[k]) {
      merged.back() = {merged.back().size * dims[k], strides[k]};
    } else {
      merged.push_back({dims[k], strides[k]});
    }
  }
  return merged;
}

bool ReshapeLayout(const Layout& from, const Shape& dims, Layout* to) {
  if (from.block != 0) return false;
  if (from.num_elements() != NumElements(dims)) return false;
  const std::vector<StridedAxis> merged = MergedAxes(from.dims, from.strides);
  to->dims = dims;
  to->block = 0;
  to->strides.assign(dims.size(), 1);
  // From behind, each merged axis must be the product of some of the new ones.
  size_t next = merged.size();
  int64_t rest = 1, stride = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    if (dims[k] == 1) continue;
    if (rest == 1) {
      if (next == 0) return false;
      --next;
      rest = merged[next].size;
      stride = merged[next].stride;
    }
    if (rest % dims[k] != 0) return false;
    to->strides[k] = stride;
    stride *= dims[k];
    rest /= dims[k];
  }
  return rest == 1 && next == 0;
}

std::vector<size_t> AxesByStride(const Layout& layout) {
  CHECK(!layout.blocked()) << layout.ToString();
  std::vector<size_t> order(layout.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto distance = [&](size_t k) { return layout.dims[k] == 1 ? INT64_MAX : layout.strides[k]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return distance(a) > distance(b); });
  return order;
}

AxisSizes SizesAround(const Shape& dims, size_t axis) {
  AxisSizes sizes{1, dims[axis], 1};
  for (size_t k = 0; k < dims.size(); ++k) (k < axis ? sizes.outer : sizes.inner) *= k == axis ? 1 : dims[k];
  return sizes;
}

Layout Simplified(const Layout& layout) {
  if (layout.block == 0 || layout.IsPadded()) return layout;
  for (size_t k = 2; k < layout.dims.size(); ++k) {
    if (layout.dims[k] != 1) return layout;
  }
  if (layout.dims[1] > layout.block && layout.strides[1] != layout.block) return layout;
  Layout plain{layout.dims, layout.strides, 0};
  plain.strides[1] = 1;
  return plain;
}

}  // namespace rewright
