// What a Winograd kernel computes, as a graph of operators.
#pragma once

#include "absl/status/statusor.h"
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

}  // namespace rewright::cpu
