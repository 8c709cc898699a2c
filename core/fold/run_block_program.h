// Computes a block program as it is stated, in plain loops, in double precision: what its kernels are tested against.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/fold/block_program.h"
#include "core/ir/op.h"
#include "core/tensor/tensor.h"

namespace rewright {

// The output `output` of an application, in blocks of so many rows and positions of the loop, the last ones of what is
// left. Error: a function has no value.
absl::StatusOr<Tensor> RunBlockProgram(const Meaning& meaning, int output, const Bindings& bindings,
                                       const BlockProgram& program, const std::vector<Tensor>& inputs,
                                       int64_t row_block, int64_t loop_block);

}  // namespace rewright
