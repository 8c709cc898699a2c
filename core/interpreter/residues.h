// Lowers an output to its stages: one, or one for each residue of its positions (residues.cc).
#pragma once

#include "core/interpreter/lower.h"

namespace rewright::interp {

// Adds the stages that compute an output of that shape to the program; returns the number of the one whose result it
// is. Errors are in the context.
int LowerOutput(Context& context, const OutputMeaning& output, const Shape& shape);

}  // namespace rewright::interp
