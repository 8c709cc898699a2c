// A pair of equal graphs, stated as a rule for tensors of every size.
//
// The space knows a pair for a few sizes. The rule gives every input the most general shape for which the operators of
// both sides accept their operands: sizes start out unrelated, and the operators' requirements equate them. The result
// is a conjecture for the verifier.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/generate/enumerate/fingerprint.h"
#include "substitutions/generate/select/general_shapes.h"
#include "substitutions/language/rule.h"

namespace rewright::generate {

// The rule first => second, without a name; `outputs` is OutputPairs. Errors: it cannot be stated in that generality,
// or not at all (constants that no rule can express; a left side that does not determine the right one).
absl::StatusOr<Rule> BuildRule(const Space& space, const Pair& pair, const std::vector<int>& outputs,
                               Generality generality);

// The name of a rule: the operators of its left side from outside in, as in "relu-of-concat".
std::string LawName(const Rule& rule);

}  // namespace rewright::generate
