// The inner loop of products of matrices and convolutions: sums of products, several steps at a time, so that partial
// sums stay in registers. Every lane adds its products one after the other, each rounded, with the same result as
// single steps.
#pragma once

#include <cstdint>

#include "core/interpreter/program.h"

namespace rewright::interp {

// Several steps acc = acc + a * b at once, in order, on rows of n lanes that lie n apart in acc: for row r in step k,
// the factors are at a[k] + r * row_a and b[k] + r * row_b (in elements).
struct MulAddPanel {
  static constexpr int kSteps = 8;
  int steps = 0;
  const void* a[kSteps];
  const void* b[kSteps];
  int64_t rows = 1;
  int64_t n = 1;
  int64_t row_a = 0;
  int64_t row_b = 0;
  int64_t stride_a = 0;
  int64_t stride_b = 0;
};
using PanelKernel = void (*)(void* acc, const MulAddPanel& panel);

// The nodes whose elements are the factors of a product of two, or whose squares are both factors.
struct PanelFactors {
  int ids[2];
  bool squares;
};
PanelFactors FactorsOf(const Stage& stage, const Node& product);

// The kernel of floats; null for other representations. With `squares` it gives acc + (a * a) * (b * b).
PanelKernel FindPanel(Rep rep, bool squares);

// True if no element of the floating representation is infinite or NaN, nor its square where `squared` asks for that.
bool AllFinite(Rep rep, bool squared, const void* elements, int64_t n);

}  // namespace rewright::interp
