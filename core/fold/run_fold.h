// Computes a fold as it is stated: block by block, with the oracle (core/interpreter/oracle.h) for every expression.
// Slow; kernels of folds are tested against it, and it against the operator's own meaning.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/fold/fold.h"
#include "core/ir/op.h"
#include "core/tensor/tensor.h"

namespace rewright {

// The output `output` of an application whose fold is `fold`, in blocks of `block` positions of the axis, the last one
// of what is left. Errors: those of the oracle.
absl::StatusOr<Tensor> RunFold(const Meaning& meaning, int output, const Bindings& bindings, const Fold& fold,
                               const std::vector<Tensor>& inputs, int64_t block);

}  // namespace rewright
