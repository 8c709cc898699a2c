// The operators' declarations, each in the file of its name or of its family. ops.cc lists them; AllOps and FindOp of
// core/ir/op.h give them by name.
#pragma once

#include <vector>

#include "core/ir/op.h"

namespace rewright {

// unary.cc
OpDef IdentityOp();
OpDef NegOp();
OpDef AbsOp();
OpDef SignOp();
std::vector<OpDef> RealFunctionOps();  // one by row of core/ir/functions.def
OpDef ReciprocalOp();
OpDef RsqrtOp();
OpDef ReluOp();
OpDef LeakyReluOp();
OpDef ClipOp();
OpDef GeluOp();
OpDef LogicalNotOp();
OpDef CastOp();

// binary.cc
OpDef AddOp();
OpDef SubOp();
OpDef MulOp();
OpDef DivOp();
OpDef RemOp();
OpDef ModOp();
OpDef PowOp();
OpDef MinOp();
OpDef MaxOp();
OpDef EqualOp();
OpDef NotEqualOp();
OpDef LessOp();
OpDef LessEqualOp();
OpDef GreaterOp();
OpDef GreaterEqualOp();
OpDef LogicalAndOp();
OpDef LogicalOrOp();
OpDef LogicalXorOp();

OpDef WhereOp();
OpDef ClampOp();

// Contractions and windows.
OpDef MatmulOp();
OpDef DotGeneralOp();
OpDef Conv2dOp();
OpDef ConvolutionOp();
OpDef MaxPool2dOp();  // pool2d.cc
OpDef AvgPool2dOp();

// Normalization.
OpDef BatchNormOp();
OpDef LayerNormOp();
OpDef LrnOp();
OpDef SoftmaxOp();
OpDef LogSoftmaxOp();

// reduce.cc
OpDef ReduceSumOp();
OpDef ReduceMeanOp();
OpDef ReduceMaxOp();
OpDef ReduceMinOp();
OpDef ReduceProdOp();
OpDef ReduceAndOp();
OpDef ReduceOrOp();
OpDef ArgmaxOp();

// Movement of elements.
OpDef ConcatOp();
OpDef SplitOp();
OpDef SliceOp();
OpDef DynamicSliceOp();
OpDef DynamicUpdateSliceOp();  // dynamic_slice.cc
OpDef ReverseOp();             // slice.cc
OpDef PadOp();
OpDef TransposeOp();
OpDef ReshapeOp();
OpDef ExpandOp();
OpDef BroadcastInDimOp();
OpDef IotaOp();
OpDef GatherOp();
OpDef DepthToSpaceOp();
OpDef SpaceToDepthOp();  // depth_to_space.cc

}  // namespace rewright
