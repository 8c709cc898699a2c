// The computation of a Winograd kernel as a graph of operators, and the matrices of F(m, r) for callers that learn m
// and r only when the program runs.
#pragma once

#include "absl/status/statusor.h"
#include "backends/cpu/winograd/matrices.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

// F(rows x columns, kernel_rows x kernel_columns): square, or of one row, or of one column.
struct WinogradForm {
  int rows = 1, kernel_rows = 1, columns = 1, kernel_columns = 1;
};

// The name of the law that a kernel of that form needs.
std::string WinogradLaw(const WinogradForm& form);

// The value of conv2d(x, w) with those pads and stride 1, as the kernel computes it, with the matrices that it uses.
// Errors: of building it (no such form).
absl::StatusOr<Value> WinogradMeaning(Arena& arena, Value x, Value w, const std::vector<int64_t>& pads,
                                      const WinogradForm& form);

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
