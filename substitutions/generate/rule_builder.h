// A pair of equal graphs, stated as a rule for tensors of every size.
//
// The space knows a pair for a few sizes. The rule gives every input the most general shape for which the operators of
// both sides accept their operands: sizes start out unrelated, and what the operators' requirements demand is equated.
// The result is a conjecture for the verifier.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/generate/match.h"
#include "substitutions/rule.h"

namespace rewright::generate {

// How far a rule goes beyond the sizes and attributes of its space, from far to near.
enum class Generality : uint8_t {
  kAnyShape,  // variables of any shape and rank, all the same: of element-wise operators alone
  kAnyAxis,   // and of concat and split along one axis: any axis of any shapes that agree in the others
  kAnyAttrs,  // every size its own, kernels of any extent; convolutions and pools with any attributes, all the same
  kAnySizes,  // every size its own, kernels of any extent
  kSpace,     // sizes that are one variable in the space are equal
};
inline constexpr Generality kGeneralities[] = {Generality::kAnyShape, Generality::kAnyAxis, Generality::kAnyAttrs,
                                               Generality::kAnySizes, Generality::kSpace};
const char* GeneralityName(Generality generality);

// Whether windows slide over its first operand.
bool HasWindows(const OperatorChoice& choice);

// The rule first => second; `outputs` is OutputPairs. Without a name. Errors: it cannot be stated in that generality,
// or not at all (constants that no rule can express; a left side that does not determine the right one).
absl::StatusOr<Rule> BuildRule(const Space& space, const Pair& pair, const std::vector<int>& outputs,
                               Generality generality);

}  // namespace rewright::generate
