// Rule files of TASO (Jia et al., SOSP 2019), as rules of this project.
//
// The operators' meanings are taken from TASO's sources (github.com/jiazhihao/TASO, src/core and src/cudnn):
//   - a convolution has as many groups as the channels of its input are times those of its weight, and padding "same"
//     (the larger half at the end) or "valid"; the kernel's extent is the weight's, whatever the rule says of it;
//   - an average excludes padding; enlarge centres a kernel in one of the extent of its second operand;
//   - split cuts a tensor where concat put it together, or a tensor that it was computed from;
//   - a rule applies wherever the operators of both sides accept their operands: the target's requirements become
//     conditions, or narrow the shapes.
// Activations of convolutions and products are operators of their own here.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/language/rule.h"

namespace rewright {

struct TasoRule {
  std::string name;  // its index in the file
  // Errors: an operator without a counterpart, no shapes that fit.
  absl::StatusOr<Rule> rule;
};

// The rules of the file `file`, whose bytes are `data`, named taso-0, taso-1, ... A damaged file, or a number that is
// out of range, is an error that names the fault and the place.
absl::StatusOr<std::vector<TasoRule>> ReadTasoRules(const std::string& data, const std::string& file);

}  // namespace rewright
