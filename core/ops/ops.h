// Every operator, declared in core/ops in the file of its name or of its family (unary.cc, binary.cc, reduce.cc, ...).
// One list makes the declarations, the registry (AllOps and FindOp, in this order), and a handle each:
// `node.op == ops::Conv2d()` compares addresses, and a misspelt operator does not compile.
#pragma once

#include <string>
#include <vector>

#include "core/ir/op.h"

// clang-format off
#define REWRIGHT_OPERATORS(X) \
  /* Elementwise, of one operand */ \
  X(Identity) X(After) X(Fetch) X(Neg) X(Abs) X(Sign) X(Reciprocal) X(Rsqrt) X(Relu) X(LeakyRelu) X(Elu) X(Clip) \
  X(Gelu) X(GeluTanh) X(Swish) X(HardSwish) X(Mish) X(LogicalNot) X(Cast) \
  /* Elementwise, of several operands that broadcast */ \
  X(Add) X(Sub) X(Mul) X(Div) X(Rem) X(Mod) X(Pow) X(Min) X(Max) X(Equal) X(NotEqual) X(Less) X(LessEqual) \
  X(Greater) X(GreaterEqual) X(LogicalAnd) X(LogicalOr) X(LogicalXor) X(BitAnd) X(BitOr) X(BitXor) X(ShiftLeft) \
  X(ShiftRight) X(Where) X(Clamp) \
  /* Contractions and windows */ \
  X(Matmul) X(DotGeneral) X(Conv2d) X(Convolution) X(MaxPool2d) X(AvgPool2d) \
  /* Normalization */ \
  X(BatchNorm) X(BatchNormTrain) X(LayerNorm) X(Lrn) X(Softmax) X(LogSoftmax) X(CrossEntropy) \
  /* Reductions */ \
  X(ReduceSum) X(ReduceMean) X(ReduceMax) X(ReduceMin) X(ReduceProd) X(ReduceAnd) X(ReduceOr) X(Argmax) X(Cumsum) \
  /* Movement of elements */ \
  X(Concat) X(Split) X(Slice) X(DynamicSlice) X(DynamicUpdateSlice) X(Reverse) X(Pad) X(Transpose) X(Reshape) \
  X(Expand) X(BroadcastInDim) X(Iota) X(Gather) X(GatherElements) X(DepthToSpace) X(SpaceToDepth) \
  /* Sums where data says, orders, random numbers */ \
  X(ScatterAdd) X(ScatterElementsAdd) X(TopK) X(RandomUniform) X(RandomUniformFrom) \
  /* Placements on devices */ \
  X(Partition) X(Combine) X(Replicate) X(Halo) X(GatherRows)
// clang-format on

namespace rewright {

#define REWRIGHT_DECLARATION(Name) OpDef Name##Op();
REWRIGHT_OPERATORS(REWRIGHT_DECLARATION)
#undef REWRIGHT_DECLARATION
std::vector<OpDef> RealFunctionOps();  // one by row REWRIGHT_REAL of core/ir/functions.def, in their order

// Returns the operators, by name. Built once, never changed.
const std::vector<const OpDef*>& AllOps();
// Finds an operator, or one that is derived from an operator (core/adjoint/operators.h, core/lift/lift.h). Null if
// there is none of that name.
const OpDef* FindOp(const std::string& name);

namespace ops {

#define REWRIGHT_HANDLE(Name) const OpDef* Name();
REWRIGHT_OPERATORS(REWRIGHT_HANDLE)
#undef REWRIGHT_HANDLE
#define REWRIGHT_REAL(Id, ...) const OpDef* Id();
#define REWRIGHT_UNARY(...)
#define REWRIGHT_BINARY(...)
#include "core/ir/functions.def"

}  // namespace ops

}  // namespace rewright
