// f on every device: for every operator f the operator each_f, made from f's own declaration.
//
//   each_conv2d(x, w; strides=..)      out[p, n, o, y, z] = conv2d(x[p], w[p]; strides=..)[n, o, y, z]
//
// Operands and results have a leading axis, the device; every read is prefixed with it. The attributes are f's, for
// what one device has (axes are plain integers, as in core/adjoint/operators.h). An operator without operands has an
// attribute `degree`, the number of devices. each_each_f is f on a mesh of devices with two axes.
//
// and block_f, f where it matters which block a device has (positions that are elements, borders, elements that are
// indices):
//
//   block_iota(; shape=[6], axis=0, cut=[], result=[0], degree=3, here=3)      [[0, 1], [2, 3], [4, 5]]
//
// Its attributes are f's, for the whole. Device p has, of operand k, block p along axis cut[k] of the whole, with
// before[k] and after[k] elements of its neighbours, or all of it (-1); it makes block p of the result along axis
// result[0], or all of it (-1): what f gives where for all that the device has not there is 0. Of `degree` devices
// those from number `first` on are here, as many as axis 0 of the operands says (`here` where there is none), so a rank
// has the same operator with itself as the first and only one.
//
// Lifted operators are operators: they are interpreted, printed, matched and proved. They are made when they are asked
// for, once, and live as long as the process. FindOp knows their names. Thread-safe.
//
// The gradient of each_f is each of the gradient of f (core/adjoint/operators.h). block_f has none: a graph is cut when
// its gradients are in it.
#pragma once

#include <string>

#include "core/ir/op.h"

namespace rewright {

// each_f; `op` lives for ever.
const OpDef* LiftedOp(const OpDef& op);
// f of each_f; null where the operator is not lifted.
const OpDef* LiftedFrom(const OpDef& op);
// The attributes of block_f that f has not, as they are called above; where f has one of that name, with a number
// behind it: degree2.
struct BlockNames {
  explicit BlockNames(const OpDef& base);
  const std::string cut, result, before, after, degree, first, here;
};
// block_f; `op` lives for ever.
const OpDef* BlockOp(const OpDef& op);
// f of block_f; null for others.
const OpDef* BlockFrom(const OpDef& op);
// Whether it is each_f or block_f: operands and results have the device as their first axis.
bool IsOnDevices(const OpDef& op);
// The attributes of an application of block_f of which only that device is here, counted among those that are.
Attrs OnlyBlockOf(const OpDef& op, Attrs attrs, int64_t device);
// The lifted operator of that name, whose operator `find` gives; null when there is none.
const OpDef* FindLiftedOp(const std::string& name, const OpDef* (*find)(const std::string&));

}  // namespace rewright
