// Strided copies between two layouts of any element type.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/kernels/transpose.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kSquare = 16;    // side of the squares that a transposing copy works in
constexpr int64_t kShortRun = 32;  // elements of a last axis that is copied as if it were one element
constexpr int64_t kChannels = 16;  // of the runs between blocks of channels and channels that lie last
constexpr int64_t kTaps = 9;       // of the most frequent short run, a 3x3 kernel: the compiler knows its length

// Copies over `axes`; the last axis is contiguous in `to` where any is. One of the others may be contiguous in `from`
// (`turned`): then the two are walked in squares, so that lines of both sides are used whole. A short last axis, the
// taps of a kernel, is a run of its own: what is said of the last axis is true of the one before it then.
template <typename T>
class CopyKernel : public Kernel {
 public:
  CopyKernel(std::vector<CopyAxis> axes, CopyAxis run, int turned, int64_t from_offset, int64_t to_offset, int threads)
      : turned_(turned), from_offset_(from_offset), to_offset_(to_offset), run_(run) {
    if (turned_ >= 0) {
      // The two inner axes become (turned, last).
      const CopyAxis axis = axes[turned_];
      axes.erase(axes.begin() + turned_);
      axes.insert(axes.end() - 1, axis);
    }
    const size_t inner = turned_ >= 0 ? 2 : 1;
    last_ = axes.back();
    middle_ = turned_ >= 0 ? axes[axes.size() - 2] : CopyAxis{1, 0, 0};
    axes.resize(axes.size() - inner);
    outer_ = std::move(axes);
    outer_count_ = 1;
    for (const CopyAxis& axis : outer_) outer_count_ *= axis.size;
    stripes_ = (middle_.size + kSquare - 1) / kSquare;
    const int64_t bytes = outer_count_ * middle_.size * last_.size * run_.size * static_cast<int64_t>(sizeof(T));
    threads_ = ThreadsFor(bytes, kSharedBytes, outer_count_ * stripes_, threads);
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const T* from = static_cast<const T*>(buffers[0]) + from_offset_;
    T* to = static_cast<T*>(buffers[1]) + to_offset_;
    ForParts(outer_count_ * stripes_, threads_, [&](int64_t begin, int64_t end) { Units(from, to, begin, end); });
    return absl::OkStatus();
  }

 private:
  void Units(const T* from, T* to, int64_t begin, int64_t end) const {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t rest = unit / stripes_;
      const int64_t stripe = unit % stripes_;
      const T* src = from;
      T* dst = to;
      for (size_t k = outer_.size(); k-- > 0;) {
        const int64_t index = rest % outer_[k].size;
        rest /= outer_[k].size;
        src += index * outer_[k].from;
        dst += index * outer_[k].to;
      }
      const int64_t first = stripe * kSquare, rows = std::min(kSquare, middle_.size - first);
      src += first * middle_.from;
      dst += first * middle_.to;
      if (run_.size == kTaps) {
        Runs<kTaps>(src, dst, rows);
      } else if (run_.size == kChannels) {
        Runs<kChannels>(src, dst, rows);
      } else if (run_.size > 1) {
        Runs<0>(src, dst, rows);
      } else if (turned_ < 0) {
        Line(src, dst, last_.size);
      } else {
        Stripe(src, dst, rows);
      }
    }
  }

  // `rows` lines of the middle axis, of runs of kCount elements; 0: of run_.size.
  template <int64_t kCount>
  void Runs(const T* src, T* dst, int64_t rows) const {
    const int64_t count = kCount > 0 ? kCount : run_.size, side = turned_ < 0 ? last_.size : kSquare;
    for (int64_t column = 0; column < last_.size; column += side) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = column; c < std::min(column + side, last_.size); ++c) {
          const T* const a = src + r * middle_.from + c * last_.from;
          T* const b = dst + r * middle_.to + c * last_.to;
          if (run_.from == 1 && run_.to == 1) {
            for (int64_t i = 0; i < count; ++i) b[i] = a[i];
          } else if (run_.from == -1 && run_.to == 1) {
            for (int64_t i = 0; i < count; ++i) b[i] = a[-i];
          } else {
            for (int64_t i = 0; i < count; ++i) b[i * run_.to] = a[i * run_.from];
          }
        }
      }
    }
  }

  void Line(const T* src, T* dst, int64_t count) const {
    if (last_.from == 1 && last_.to == 1) {
      std::memcpy(dst, src, static_cast<size_t>(count) * sizeof(T));
    } else if (last_.to == 1) {
      for (int64_t i = 0; i < count; ++i) dst[i] = src[i * last_.from];
    } else {
      for (int64_t i = 0; i < count; ++i) dst[i * last_.to] = src[i * last_.from];
    }
  }

  // `rows` lines of the middle axis.
  void Stripe(const T* src, T* dst, int64_t rows) const {
    for (int64_t column = 0; column < last_.size; column += kSquare) {
      const int64_t columns = std::min(kSquare, last_.size - column);
      if (rows == kSquare && columns == kSquare) {
        // Each line of the source lies in a page of its own: no processor foresees that.
        for (int64_t c = column + kSquare; c < std::min(column + 2 * kSquare, last_.size); ++c) {
          __builtin_prefetch(src + c * last_.from);
        }
        Square(src + column * last_.from, dst + column * last_.to);
        continue;
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = column; c < column + columns; ++c) {
          dst[r * middle_.to + c * last_.to] = src[r * middle_.from + c * last_.from];
        }
      }
    }
  }

  void Square(const T* src, T* dst) const {
    if constexpr (sizeof(T) == sizeof(uint32_t)) {
      if (middle_.from == 1 && last_.to == 1) {
        for (int64_t c = 0; c < kSquare; c += kTransposed) {
          for (int64_t r = 0; r < kSquare; r += kTransposed) {
            Transpose4(src + r + c * last_.from, last_.from, dst + c + r * middle_.to, middle_.to);
          }
        }
        return;
      }
    }
    T tile[kSquare][kSquare];
    for (int64_t c = 0; c < kSquare; ++c) {
      for (int64_t r = 0; r < kSquare; ++r) tile[r][c] = src[r * middle_.from + c * last_.from];
    }
    for (int64_t r = 0; r < kSquare; ++r) {
      for (int64_t c = 0; c < kSquare; ++c) dst[r * middle_.to + c * last_.to] = tile[r][c];
    }
  }

  int turned_;
  int64_t from_offset_, to_offset_;
  CopyAxis last_, middle_, run_;
  std::vector<CopyAxis> outer_;
  int64_t outer_count_ = 1, stripes_ = 1;
  int threads_ = 1;
};

// Cuts the last axis, so that threads can share it.
void Cut(std::vector<CopyAxis>* axes) {
  const CopyAxis last = axes->back();
  int64_t pieces = 16;
  while (pieces > 1 && last.size % pieces != 0) --pieces;
  const int64_t size = last.size / pieces;
  axes->back() = {pieces, size * last.from, size * last.to};
  axes->push_back({size, last.from, last.to});
}

template <typename T>
KernelPtr Make(std::vector<CopyAxis> axes, int64_t from_offset, int64_t to_offset, int threads) {
  if (axes.empty()) axes.push_back({1, 1, 1});
  int turned = -1;
  CopyAxis run = {1, 1, 1};
  if (axes.size() > 1 && axes.back().size <= kShortRun && std::abs(axes.back().from) == 1) {
    run = axes.back();
    axes.pop_back();
    for (size_t k = 0; k + 1 < axes.size(); ++k) {  // what lies closest together in `from`
      const int64_t closest = axes[turned < 0 ? axes.size() - 1 : static_cast<size_t>(turned)].from;
      if (std::abs(axes[k].from) < std::abs(closest)) turned = static_cast<int>(k);
    }
    if (turned < 0) Cut(&axes);
  } else if (axes.back().from != 1) {
    for (size_t k = 0; k + 1 < axes.size(); ++k) {
      if (axes[k].from == 1 && axes[k].size >= 4) turned = static_cast<int>(k);
    }
  } else if (axes.size() == 1 && axes[0].to == 1 && axes[0].size > 65536) {
    Cut(&axes);  // one long run
  }
  return std::make_unique<CopyKernel<T>>(std::move(axes), run, turned, from_offset, to_offset, threads);
}

}  // namespace

KernelPtr MakeCopyKernel(const Layout& from, int64_t from_offset, const Layout& to, int64_t to_offset,
                         size_t element_bytes, int threads) {
  return VisitElement(element_bytes, [&](auto element) {
    return Make<decltype(element)>(CopyAxes(from, to), from_offset, to_offset, threads);
  });
}

}  // namespace rewright::cpu
