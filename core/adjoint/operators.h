// Operators that are derived from operators: gradients and tangents, ordinary OpDefs with declarations of their own.
//
//   conv2d_grad_x(w, u; x_shape=[..], strides=..)   the gradient by x, where u is the cotangent of the output
//   conv2d_tangent(x, w, dx, dw; strides=..)        the tangent of the output, where dx and dw are those of the inputs
//
// Operands are the inputs whose elements are read, then the cotangents (u, or u0, u1.. of several outputs) or tangents.
// An input x that is not read has its shape in an attribute `x_shape`; its element type is that of the first cotangent,
// or an attribute `x_dtype` if samples of the operator have other types. A variadic input that is not read has its
// shapes one after another in `x_shape` and its ranks in `x_ranks`. All other attributes are those of the operator;
// axes are plain integers here, counted from the front.
//
// Derived operators are operators: they are interpreted, printed, matched, proved, and derived from again
// (conv2d_grad_x_grad_u). They are made once, when they are first asked for, and live as long as the process. FindOp
// knows their names. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/adjoint/adjoint.h"
#include "core/ir/op.h"

namespace rewright {

// Returns the gradient by an input. Every member of a variadic input has a gradient, even if samples have fewer
// members. Errors: the operator has no input of that number, no gradient by it (no sample of the operator has a
// floating type there, or at a member of that list, and at an output), or more than one list of operands of any length
// would be needed. `op` must live as long as the process.
absl::StatusOr<const OpDef*> GradientOp(const OpDef& op, int input);
absl::StatusOr<const OpDef*> TangentOp(const OpDef& op);

// Returns the derived operator of that name, whose operator `find` gives; null if there is none.
const OpDef* FindDerivedOp(const std::string& name, const OpDef* (*find)(const std::string&));

// An application of a derived operator, given by the application of the base.
struct DerivedCall {
  // An operand: an input of the original application; the cotangent of an output (of a gradient), or the tangent of an
  // input (of a tangent).
  struct Operand {
    bool is_direction = false;
    int number = 0;
  };
  const OpDef* op = nullptr;
  std::vector<Operand> operands;
  Attrs attrs;
};
// `inputs` are the types of the original operands, `attrs` its canonical attributes.
absl::StatusOr<DerivedCall> GradientCall(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs,
                                         const std::vector<TensorType>& outputs, int input);
absl::StatusOr<DerivedCall> TangentCall(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs);

// The gradient by an input as an operator of another form (Inversion::kScattered: the definition), for comparison and
// for claims. It has the operands and attributes of GradientOp's, and the name op_scatter_x.
absl::StatusOr<const OpDef*> ScatteredGradientOp(const OpDef& op, int input);

}  // namespace rewright
