// Compares outputs of models that ought to be equal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace rewright {

// `actual` equals `expected` when |actual - expected| <= atol + rtol * |expected| for every element. Infinities and
// NaN equal themselves alone; types that are no floats are compared exactly.
struct Tolerance {
  double rtol = 1e-3;
  double atol = -1;  // negative: DefaultDistance of the largest finite element of the expected tensor
};

struct TensorDiff {
  bool equal = true;
  double max_abs_diff = 0;  // infinity where one is NaN or infinite and the other is not
  double max_rel_diff = 0;  // max_abs_diff relative to the largest finite |expected|
  int64_t worst = -1;       // the element furthest beyond its tolerance; -1: none differs
  double worst_expected = 0;
  double worst_actual = 0;
};

// The tensors have one type.
TensorDiff DiffTensors(const Tensor& expected, const Tensor& actual, const Tolerance& tolerance);

// The differences between two executables of the same function on the same inputs.
struct OutputsDiff {
  bool equal = true;
  double max_abs_diff = 0;
  double max_rel_diff = 0;
  std::string worst;  // "output y [0,3]: 1.5 and 1.25"; the first output with the largest relative difference
};
OutputsDiff DiffOutputs(const std::vector<std::string>& names, const std::vector<Tensor>& expected,
                        const std::vector<Tensor>& actual, const Tolerance& tolerance);

}  // namespace rewright
