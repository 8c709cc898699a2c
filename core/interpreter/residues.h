// Reductions that are computed residue by residue.
//
// The derivative of a window of stride 2, a sum such as
//   out[y] = sum r: u[(y - r) div 2] where (y - r) mod 2 = 0
// reads neighbours y by different loops: its indices are not linear in y, and lanes are gathered. At the positions
// y = 2 z + s, with s fixed, they are linear in z. A costly reduction with such indices becomes a stage for each
// residue s; all of them fill one tensor. Each element is the same sum of the same terms in the same order.
#pragma once

#include "core/interpreter/lower.h"

namespace rewright::interp {

// Adds the stages that compute an output of that shape to the program; returns the number of the one whose result it
// is. Errors are in the context.
int LowerOutput(Context& context, const OutputMeaning& output, const Shape& shape);

}  // namespace rewright::interp
