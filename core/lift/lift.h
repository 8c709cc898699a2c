// f on every device: for every operator f the operator each_f, made from f's own declaration.
//
//   each_conv2d(x, w; strides=..)      out[p, n, o, y, z] = conv2d(x[p], w[p]; strides=..)[n, o, y, z]
//
// Operands and results have a leading axis, the device; every read is prefixed with it. The attributes are f's, for
// what one device has (axes are plain integers, as in core/adjoint/operators.h). An operator without operands has an
// attribute `degree`, the number of devices. each_each_f is f on a mesh of devices with two axes.
//
// Lifted operators are operators: they are interpreted, printed, matched and proved. They are made when they are asked
// for, once, and live as long as the process. FindOp knows their names. Thread-safe.
//
// The gradient of each_f is each of the gradient of f (core/adjoint/operators.h).
#pragma once

#include <string>

#include "core/ir/op.h"

namespace rewright {

// each_f; `op` lives for ever.
const OpDef* LiftedOp(const OpDef& op);
// f of each_f; null where the operator is not lifted.
const OpDef* LiftedFrom(const OpDef& op);
// The lifted operator of that name, whose operator `find` gives; null when there is none.
const OpDef* FindLiftedOp(const std::string& name, const OpDef* (*find)(const std::string&));

}  // namespace rewright
