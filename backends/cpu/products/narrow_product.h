// Products with weights of 4 or 8 bits in groups: how the weights lie, and the kernel for few rows, which reads them
// once. Many rows go to the kernel of f32 products, which turns a block of weights to f32 at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/fuse/narrow_weights.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {

inline constexpr int64_t kFewRows = 16;

// A factor [depth, columns] in one piece of memory: the fields of all columns, their scales, their zero points.
struct NarrowForm {
  int64_t depth = 0, columns = 0;
  int bits = 8;
  int group_shift = 0;  // groups have 16 << group_shift numbers
  bool zeros = false;   // each group has a zero point
  float zero = 0;       // that of all groups else

  int64_t column_bytes() const;
  int64_t groups() const;
  int64_t bytes() const;
  SimdTable::NarrowColumns At(const void* memory) const;
};

// A factor of a product that is known and of few bits.
struct NarrowFactor {
  NarrowForm form;
  int buffer = -1;
};

// The known factor as kernels read it; none where it is no such matrix, where its groups are shorter than 16 numbers or
// its numbers are not finite.
absl::StatusOr<std::optional<NarrowFactor>> FindNarrowFactor(Lowering& lowering, Value factor);

// Columns [first_column, +columns) of rows [first, +depth) in f32, column by column, `column_step` numbers apart.
void WidenColumns(const NarrowForm& form, const void* memory, int64_t first_column, int64_t columns, int64_t first,
                  int64_t depth, int64_t column_step, float* to);

// The kernel for at most kFewRows rows in all; buffers as for MakeMatmulKernel, with NarrowScratchBytes of scratch.
bool HasFewRows(const MatmulProblem& problem);
size_t NarrowScratchBytes(const MatmulProblem& problem);
KernelPtr MakeNarrowKernel(const MatmulProblem& problem, int threads);

}  // namespace rewright::cpu
