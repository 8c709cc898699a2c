// Checks a rule a second way, which shares nothing with its proof. At small sizes both sides are unrolled, element by
// element and straight from the declarations, to terms over uninterpreted leaves. Z3 is asked if some real numbers tell
// them apart (as Alive2 does with loops). There are no symbols, no normal forms, no alignment and no laws but Z3's own:
// the applier builds the sides, as it does where the rule is used.
//
// Real elements are real numbers, and integers are bit vectors that wrap around. Functions such as exp are
// uninterpreted but for their sign; powers by small integers and the logistic function are expanded by their
// definitions. Literals that f32 rounds are symbols. So the check gives up on a rule that needs a law of an
// uninterpreted function, and on a rule whose elements select positions. It confirms a rule only at the sizes that were
// drawn.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "substitutions/instance/compiled_rule.h"
#include "verifier/check/bounded/distinguishing_assignments.h"

namespace rewright {

struct BoundedCheckOptions {
  int structures = 6;                     // structural values, evenly among all within small limits
  verifier::DistinguishingOptions draws;  // sizes and attributes of each
  unsigned resource_limit = 1000000;      // of Z3, for one question
  uint64_t seed = 1;
};

enum class BoundedVerdict : uint8_t { kConfirmed, kDenied, kGivenUp };

struct BoundedCheck {
  BoundedVerdict verdict = BoundedVerdict::kGivenUp;
  int applications = 0;  // at which all elements are equal
  std::string reason;    // where it was denied, or why it was given up
};

// kConfirmed: every application drawn is. kDenied: real numbers tell one apart, or its right side is ill-formed or of
// other types. Errors: no instance can be drawn.
absl::StatusOr<BoundedCheck> CheckAtSmallSizes(const CompiledRule& rule, const BoundedCheckOptions& options = {});

}  // namespace rewright
