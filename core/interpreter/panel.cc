#include "core/interpreter/panel.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "core/interpreter/kernels.h"

namespace rewright::interp {
namespace {

constexpr int kRows = 4;     // rows of a tile
constexpr int kVectors = 2;  // vectors of 32 bytes across a tile

template <class T>
struct VectorOf {
  static constexpr int kLanes = 32 / sizeof(T);
  typedef T Type __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
};

// Makes the factor of a term of an element.
template <bool squares, class F>
inline __attribute__((always_inline)) void ToFactor(F* element) {
  if constexpr (squares) *element *= *element;
}

// Updates a tile of R rows and C vectors at `acc`: a scalar per row times a vector that the rows share.
template <bool squares, class T, int R, int C>
inline __attribute__((always_inline)) void Tile(T* acc, const MulAddPanel& p, const T* const* a, const T* const* b,
                                                int64_t row, int64_t lane) {
  using V = typename VectorOf<T>::Type;
  constexpr int kLanes = VectorOf<T>::kLanes;
  V sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      sums[r][c] = *reinterpret_cast<const V*>(acc + (row + r) * p.n + lane + c * kLanes);
    }
  }
  for (int k = 0; k < p.steps; ++k) {
    const T* vectors = b[k] + row * p.row_b + lane;
    const T* scalars = a[k] + row * p.row_a;
    V factor[C];
    for (int c = 0; c < C; ++c) {
      factor[c] = *reinterpret_cast<const V*>(vectors + c * kLanes);
      ToFactor<squares>(&factor[c]);
    }
    for (int r = 0; r < R; ++r) {
      T scalar = scalars[r * p.row_a];
      ToFactor<squares>(&scalar);
      for (int c = 0; c < C; ++c) sums[r][c] += scalar * factor[c];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      *reinterpret_cast<V*>(acc + (row + r) * p.n + lane + c * kLanes) = sums[r][c];
    }
  }
}

// Updates lanes [lane, n) of R rows.
template <bool squares, class T, int R>
inline __attribute__((always_inline)) void Rest(T* acc, const MulAddPanel& p, const T* const* a, const T* const* b,
                                                int64_t row, int64_t lane) {
  for (int64_t r = row; r < row + R; ++r) {
    for (int64_t i = lane; i < p.n; ++i) {
      T sum = acc[r * p.n + i];
      for (int k = 0; k < p.steps; ++k) {
        T x = a[k][r * p.row_a + i * p.stride_a], y = b[k][r * p.row_b + i * p.stride_b];
        ToFactor<squares>(&x);
        ToFactor<squares>(&y);
        const T product = x * y;
        sum = sum + product;
      }
      acc[r * p.n + i] = sum;
    }
  }
}

template <class T, bool squares>
REWRIGHT_CLONES void PanelLoop(void* acc_p, const MulAddPanel& given) {
  MulAddPanel p = given;
  if (p.stride_a == 1 && p.stride_b == 0) {  // the factor that is one scalar per row comes first
    std::swap_ranges(p.a, p.a + p.steps, p.b);
    std::swap(p.row_a, p.row_b);
    std::swap(p.stride_a, p.stride_b);
  }
  T* acc = static_cast<T*>(acc_p);
  const T* a[MulAddPanel::kSteps];
  const T* b[MulAddPanel::kSteps];
  for (int k = 0; k < p.steps; ++k) {
    a[k] = static_cast<const T*>(p.a[k]);
    b[k] = static_cast<const T*>(p.b[k]);
  }
  constexpr int kLanes = VectorOf<T>::kLanes;
  int64_t row = 0;
  if (p.stride_a == 0 && p.stride_b == 1) {
    for (; p.row_b == 0 && row + kRows <= p.rows; row += kRows) {
      int64_t lane = 0;
      for (; lane + kVectors * kLanes <= p.n; lane += kVectors * kLanes) {
        Tile<squares, T, kRows, kVectors>(acc, p, a, b, row, lane);
      }
      for (; lane + kLanes <= p.n; lane += kLanes) Tile<squares, T, kRows, 1>(acc, p, a, b, row, lane);
      Rest<squares, T, kRows>(acc, p, a, b, row, lane);
    }
    for (; row < p.rows; ++row) {
      int64_t lane = 0;
      for (; lane + 4 * kLanes <= p.n; lane += 4 * kLanes) Tile<squares, T, 1, 4>(acc, p, a, b, row, lane);
      for (; lane + kLanes <= p.n; lane += kLanes) Tile<squares, T, 1, 1>(acc, p, a, b, row, lane);
      Rest<squares, T, 1>(acc, p, a, b, row, lane);
    }
    return;
  }
  for (; row < p.rows; ++row) Rest<squares, T, 1>(acc, p, a, b, row, 0);
}

// True if all magnitudes have bits below these.
template <class Bits>
REWRIGHT_CLONES bool AllBelow(Bits limit, const void* elements, int64_t n) {
  constexpr Bits kMagnitude = ~Bits{0} >> 1;
  const auto* bytes = static_cast<const std::byte*>(elements);
  Bits found = 0;
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + static_cast<size_t>(i) * sizeof bits, sizeof bits);
    found |= static_cast<Bits>((bits & kMagnitude) >= limit);
  }
  return found == 0;
}

}  // namespace

bool AllFinite(Rep rep, bool squared, const void* elements, int64_t n) {
  if (rep == Rep::kFloat) {
    return AllBelow(std::bit_cast<uint32_t>(squared ? 0x1p64f : std::numeric_limits<float>::infinity()), elements, n);
  }
  return AllBelow(std::bit_cast<uint64_t>(squared ? 0x1p512 : std::numeric_limits<double>::infinity()), elements, n);
}

PanelFactors FactorsOf(const Stage& stage, const Node& product) {
  const Node& a = stage.nodes[product.args[0]];
  const Node& b = stage.nodes[product.args[1]];
  const auto is_square = [](const Node& n) {
    return n.kind == NodeKind::kCall && n.fn == Fn::kMul && n.args[0] == n.args[1];
  };
  if (!is_square(a) || !is_square(b)) return {{product.args[0], product.args[1]}, false};
  return {{a.args[0], b.args[0]}, true};
}

PanelKernel FindPanel(Rep rep, bool squares) {
  if (rep == Rep::kFloat) return squares ? PanelLoop<float, true> : PanelLoop<float, false>;
  if (rep == Rep::kDouble) return squares ? PanelLoop<double, true> : PanelLoop<double, false>;
  return nullptr;
}

}  // namespace rewright::interp
