// The matrices of F(m, r) for whoever meets m and r when the program runs.
#pragma once

#include "backends/cpu/kernels/winograd_matrices.h"

namespace rewright::cpu {

// By rows; null where there is no such algorithm.
struct WinogradFactors {
  const Ratio *out = nullptr, *kernel = nullptr, *data = nullptr;
};

template <int m, int r>
WinogradFactors FactorsOf() {
  constexpr const auto& matrices = kWinograd<m, r>;
  return {matrices.out[0], matrices.kernel[0], matrices.data[0]};
}

inline WinogradFactors FactorsOf(int m, int r) {
  switch (10 * m + r) {
    case 23: return FactorsOf<2, 3>();
    case 43: return FactorsOf<4, 3>();
    case 63: return FactorsOf<6, 3>();
    case 25: return FactorsOf<2, 5>();
    case 45: return FactorsOf<4, 5>();
    case 27: return FactorsOf<2, 7>();
    case 47: return FactorsOf<4, 7>();
    case 67: return FactorsOf<6, 7>();
    default: return {};
  }
}

}  // namespace rewright::cpu
