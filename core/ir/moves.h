// Operators that compute nothing.
#pragma once

#include "core/ir/op.h"

namespace rewright {

// Whether every element of every output is an element of an operand or a constant, chosen by position or by integers
// that are read: transposes, concatenations, paddings, gathers. Such a meaning is the same for every element type.
bool MovesElements(const Meaning& meaning);

}  // namespace rewright
