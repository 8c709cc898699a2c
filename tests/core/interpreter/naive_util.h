// The plainest evaluator of a Meaning: recursion over the expression for every output element. It checks the
// interpreter, shares no code with it, and reports reads outside an operand.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "core/ir/tensor.h"

namespace rewright {

absl::StatusOr<std::vector<Tensor>> NaiveInterpret(const Meaning& meaning, const Bindings& bindings,
                                                   const std::vector<TensorType>& outputs,
                                                   const std::vector<Tensor>& inputs);

}  // namespace rewright
