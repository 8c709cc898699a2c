#include "core/interpreter/panel.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
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

// Updates a tile of R rows and C vectors at `acc`: a scalar per row times a vector that the rows share.
template <class T, int R, int C>
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
    for (int c = 0; c < C; ++c) factor[c] = *reinterpret_cast<const V*>(vectors + c * kLanes);
    for (int r = 0; r < R; ++r) {
      const T scalar = scalars[r * p.row_a];
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
template <class T, int R>
inline __attribute__((always_inline)) void Rest(T* acc, const MulAddPanel& p, const T* const* a, const T* const* b,
                                                int64_t row, int64_t lane) {
  for (int64_t r = row; r < row + R; ++r) {
    for (int64_t i = lane; i < p.n; ++i) {
      T sum = acc[r * p.n + i];
      for (int k = 0; k < p.steps; ++k) {
        const T product = a[k][r * p.row_a + i * p.stride_a] * b[k][r * p.row_b + i * p.stride_b];
        sum = sum + product;
      }
      acc[r * p.n + i] = sum;
    }
  }
}

template <class T>
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
        Tile<T, kRows, kVectors>(acc, p, a, b, row, lane);
      }
      for (; lane + kLanes <= p.n; lane += kLanes) Tile<T, kRows, 1>(acc, p, a, b, row, lane);
      Rest<T, kRows>(acc, p, a, b, row, lane);
    }
    for (; row < p.rows; ++row) {
      int64_t lane = 0;
      for (; lane + 4 * kLanes <= p.n; lane += 4 * kLanes) Tile<T, 1, 4>(acc, p, a, b, row, lane);
      for (; lane + kLanes <= p.n; lane += kLanes) Tile<T, 1, 1>(acc, p, a, b, row, lane);
      Rest<T, 1>(acc, p, a, b, row, lane);
    }
    return;
  }
  for (; row < p.rows; ++row) Rest<T, 1>(acc, p, a, b, row, 0);
}

// Returns false if a number's exponent is all ones.
template <class Bits>
REWRIGHT_CLONES bool NoneHas(Bits exponent, const void* elements, int64_t n) {
  const auto* bytes = static_cast<const std::byte*>(elements);
  Bits found = 0;
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + static_cast<size_t>(i) * sizeof bits, sizeof bits);
    found |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return found == 0;
}

}  // namespace

bool AllFinite(Rep rep, const void* elements, int64_t n) {
  return rep == Rep::kFloat ? NoneHas<uint32_t>(0x7f800000u, elements, n)
                            : NoneHas<uint64_t>(0x7ff0000000000000u, elements, n);
}

PanelKernel FindPanel(Rep rep) {
  if (rep == Rep::kFloat) return PanelLoop<float>;
  if (rep == Rep::kDouble) return PanelLoop<double>;
  return nullptr;
}

}  // namespace rewright::interp
