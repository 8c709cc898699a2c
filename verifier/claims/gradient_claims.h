// States, for the prover, the claims that make derived operators (core/adjoint/operators.h) right:
//
//   inversion   the gradient as it is gathered equals the definition: the sum over all reads under the equations
//   duality     <u, J v> = <J^T u, v>, J v being the tangent of the output along v, J^T u the gradient by every input
//               as it is defined, scattered: with the inversions it holds of the gathered ones
//   shift       the outputs do not depend on the values that the declaration marks as shifts (OpBuilder::Shift): with
//               free tensors in their places (core/adjoint/free_shift.h) the operator is the same
//
// A claim is about one structure of the operator (ranks, axes, flags); sizes and integer attributes are symbols, so
// that it holds for all of them. Structures are those of the operator's samples.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "verifier/prove_rule.h"

namespace rewright {

struct GradientClaim {
  enum class Kind : uint8_t { kInversion, kDuality, kShift };
  Kind kind = Kind::kInversion;
  std::string input;      // of kInversion: its name
  std::string structure;  // "f32[3] f32[1, 3]; axis=1", sizes other than one left out: "f32[_, 1]"
  Rule rule;
};
const char* ClaimName(GradientClaim::Kind kind);  // "inversion", "duality", "shift"

// Gives none if the operator has no gradients. It covers at most `structures` structures, the first ones of the
// operator's samples. Error: an operator cannot be derived.
absl::StatusOr<std::vector<GradientClaim>> GradientClaims(const OpDef& op, int structures);

// The verdict, with the reason of one that is open; with `certify` also a certificate.
RuleVerdict JudgeClaim(const GradientClaim& claim, double work_limit_s, bool certify = false);

}  // namespace rewright
