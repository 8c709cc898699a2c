// Neighbouring axes that a rule instance only carries along are one axis.
//
// Two neighbouring axes of a value are *merged* where every application that makes or reads the value copies their two
// positions together, side by side and in order, and where their sizes occur nowhere but in shapes and in equations of
// sizes. Row-major order then maps the pair to a single axis, one to one: tensors, reads, conditions and results
// correspond. An instance is therefore true for all sizes exactly when the instance with one axis in place of the pair
// is (docs/verifier.md, "Any number of axes").
#pragma once

#include <string>

#include "substitutions/instance/instance.h"

namespace rewright::verifier {

// A text of the instance with all merged axes as one, names aside: instances of equal texts are true together. Runs of
// merged axes must look alike whichever of their axes stands for the run; where they do not, nothing is merged.
std::string MergedAxesKey(const RuleInstance& instance);

}  // namespace rewright::verifier
