// The derivatives of one application: elements of gradients and of tangents, from its Meaning alone.
//
//   gradient   dx[p] = the sum over outputs o and their positions i of  u_o[i] * (d out_o[i] / d x[p])
//   tangent    dout[i] = the sum over inputs k and their positions p of  (d out[i] / d x_k[p]) * dx_k[p]
//
// Operands of these expressions are numbered: inputs 0..n-1 as in the Meaning, then the cotangents or tangents.
// Cotangent o of a gradient is operand n+o, the tangent of input k is operand n+k.
#pragma once

#include <string>
#include <vector>

#include "core/ir/op.h"

namespace rewright {

// How a gradient is written. Gathered: as a sum over reads that `position` determines as far as the equations can be
// solved. Scattered: as the definition, a sum over all reads of the operand under the equation that the read is at
// `position`.
enum class Inversion : uint8_t { kGathered, kScattered };

struct Derivative {
  DType dtype = DType::kFloat32;
  ExprPtr element;
  // Variables are those of the Meaning; `position` and bound variables have numbers of their own. A bound variable has
  // the same extent wherever it occurs.
  std::vector<int> position;
  std::vector<std::string> position_names;
  std::vector<ExprPtr> shape;
  std::vector<ExprPtr> shifts;  // subexpressions of the element on which it does not depend
  std::vector<std::string> steps;
  int unsolved = 0;  // equations that stay conditions of sums
};

// `key` is the one that the Meaning was made from; the input is of a floating type.
Derivative GradientOf(const OpDef& op, const StructuralKey& key, const Meaning& meaning, int input,
                      Inversion inversion = Inversion::kGathered);
// Tangent of an output of a floating type along tangents of all floating inputs.
Derivative TangentOf(const OpDef& op, const StructuralKey& key, const Meaning& meaning, int output);

// Returns the inputs, cotangents and tangents that are read.
std::vector<int> OperandsRead(const ExprPtr& element);

}  // namespace rewright
