// An operator with free tensors in the place of the values that its declaration marks as shifts (OpBuilder::Shift).
// That no output depends on them is a law about it:
//
//   softmax_free_shift(x, shift0; axis=..) = softmax(x; axis=..)
//
// Operands are the operator's, then a tensor for every shift, of its element type and of the shape of the output that
// it is part of. Attributes are the operator's. Made when it is asked for, once; FindOp knows the name. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"

namespace rewright {

// Errors: the declaration marks no shift, or the operator takes operands of any number. `op` lives for ever.
absl::StatusOr<const OpDef*> FreeShiftOp(const OpDef& op);

// Of an application of the base: the types of the tensors in the places of shifts.
std::vector<TensorType> ShiftTypes(const Application& application);

// The operator of that name, whose base `find` gives; null where there is none.
const OpDef* FindFreeShiftOp(const std::string& name, const OpDef* (*find)(const std::string&));

}  // namespace rewright
