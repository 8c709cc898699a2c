// What follows a convolution or product within its group.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/fusion.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/lowering.h"

namespace rewright::cpu {

// What the linear steps of an epilogue amount to, per channel: (result + bias) * scale + shift.
struct LinearEpilogue {
  std::vector<float> bias, scale, shift;  // empty: none
};

absl::StatusOr<LinearEpilogue> LinearStepsOf(Lowering& lowering, const FusedGroup& group, int64_t channels);

PostOps PostOpsOf(const FusedGroup& group);
// What is added in a group whose post-ops have a residual.
Value ResidualOf(const FusedGroup& group);

// Memory for weights in the form in which a kernel reads them.
absl::StatusOr<std::shared_ptr<void>> AllocatePacked(size_t bytes, const TensorType& weights);

}  // namespace rewright::cpu
