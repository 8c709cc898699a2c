// Lifting: for every operator f there is an operator each_f, f on every device, made from f's own declaration.
//
//   each_conv2d(x, w; strides=..)      out[p, n, o, y, z] = conv2d(x[p], w[p]; strides=..)[n, o, y, z]
//
// Operands and results have a leading axis, the device; every read is prefixed with it. The attributes are f's, for the
// tensors of one device (axes are plain integers, as in core/adjoint/operators.h). An operator without operands has an
// attribute `degree`, the number of devices. each_each_f is f on a mesh of devices with two axes.
//
// The operator block_f is f for cases in which the position of a device's block matters (positions that are elements,
// borders, elements that are indices):
//
//   block_iota(; shape=[6], axis=0, cut=[], result=[0], degree=3, here=3)      [[0, 1], [2, 3], [4, 5]]
//
// Its attributes are f's, for the whole tensors. Device p holds of operand k block p along axis cut[k] of the whole,
// with before[k] and after[k] elements of its neighbours, or all of it (-1). It makes block p of the result along axis
// result[0], or all of it (-1): the result of f with 0 for every element that the device does not hold. The devices
// from number `first` on are here, out of `degree`; their count is axis 0 of the operands (`here` if there is no
// operand). A rank therefore has the same operator with itself as the first and only device.
//
// Lifted operators are operators: they are interpreted, printed, matched and proved. They are made once, when they are
// first asked for, and live as long as the process. FindOp knows their names. Thread-safe.
//
// The gradient of each_f is each of the gradient of f (core/adjoint/operators.h). block_f has none: a graph is cut
// after its gradients have been added.
#pragma once

#include <string>

#include "core/ir/op.h"

namespace rewright {

// Returns each_f; `op` must live as long as the process.
const OpDef* LiftedOp(const OpDef& op);
// Returns f of each_f; null if the operator is not lifted.
const OpDef* LiftedFrom(const OpDef& op);
// The names of block_f's attributes that f lacks, as described above; a name that f also has gets a number behind it:
// degree2.
struct BlockNames {
  explicit BlockNames(const OpDef& base);
  const std::string cut, result, before, after, degree, first, here;
};
// Returns block_f; `op` must live as long as the process.
const OpDef* BlockOp(const OpDef& op);
// Returns f of block_f; null for others.
const OpDef* BlockFrom(const OpDef& op);
// True for each_f and block_f: operands and results have the device as their first axis.
bool IsOnDevices(const OpDef& op);
// Returns the attributes of an application of block_f of which only that device is here, counted among those that are.
Attrs OnlyBlockOf(const OpDef& op, Attrs attrs, int64_t device);
// Returns the lifted operator of that name, whose operator `find` gives; null if there is none.
const OpDef* FindLiftedOp(const std::string& name, const OpDef* (*find)(const std::string&));

}  // namespace rewright
