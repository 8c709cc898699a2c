// An operator with free tensors in place of the values that its declaration marks as shifts (OpBuilder::Shift). A law
// about it states that no output depends on them:
//
//   softmax_free_shift(x, shift0; axis=..) = softmax(x; axis=..)
//
// Its operands are the operator's, then one tensor for each shift, of the shift's element type and of the shape of the
// output that the shift is part of. Its attributes are the operator's. It is made once, when it is first asked for;
// FindOp knows its name. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"

namespace rewright {

// Errors: the declaration marks no shift, or the operator is variadic. `op` must live as long as the process.
absl::StatusOr<const OpDef*> FreeShiftOp(const OpDef& op);

// Returns the types of the tensors in place of the shifts, for an application of the base.
std::vector<TensorType> ShiftTypes(const Application& application);

// Returns the operator of that name, whose base `find` gives; null if there is none.
const OpDef* FindFreeShiftOp(const std::string& name, const OpDef* (*find)(const std::string&));

}  // namespace rewright
