// Classifies an operator by its Meaning: pointwise function, or movement of elements.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/op.h"

namespace rewright {

// One read of a pointwise node: axis d of the operand is read at output position `axes[d]`, or at index 0 where that
// is -1 (an axis of size one).
struct PointwiseRead {
  int input = 0;
  std::vector<int> axes;
  friend bool operator==(const PointwiseRead&, const PointwiseRead&) = default;
};

// True if the node has one output, every element of which is a function of operand elements at the same position (axes
// of the operands may be omitted, permuted or of size one), and it is not a mere copy. The Meaning alone decides.
bool IsPointwise(const Meaning& meaning);

// Returns all reads, each distinct one once. Requires IsPointwise.
std::vector<PointwiseRead> PointwiseReads(const Meaning& meaning);

// Returns the axes of one read expression of a pointwise meaning.
PointwiseRead PointwiseReadOf(const Meaning& meaning, const ExprNode& read);

// True if the read is of the operand's element at the output position itself, for every axis.
bool IsIdentityRead(const PointwiseRead& read, const TensorType& operand, const TensorType& output);

// Returns the operand that is the only output, element by element at the same position; nothing if the meaning says
// more.
std::optional<int> CopiedOperand(const Meaning& meaning, const std::vector<TensorType>& operands,
                                 const std::vector<TensorType>& outputs);

// True if every element of every output is an element of an operand or a constant, chosen by position or by integers
// that are read: transposes, concatenations, paddings, gathers. Such a meaning is the same for every element type.
bool MovesElements(const Meaning& meaning);

}  // namespace rewright
