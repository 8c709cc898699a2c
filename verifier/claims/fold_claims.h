// The laws of a fold (core/fold/fold.h), proved for all sizes: what is carried behind two pieces of the axis equals
// what is carried behind the first, repaired, joined with the reduction of the second. From these follows, by induction
// over blocks of whatever sizes, that the loop gives the element.
//
// A law is stated about arbitrary elements: what varies along the axis becomes an operand u, in two pieces a and b, and
// what a term takes from numbers that are carried with it an operand g, old and new. The law of the weighted sum in
// attention reads
//
//   sum t: exp(concat(a0, b0)[t] - new0) * concat(a1, b1)[t]
//     = (sum t: exp(a0[t] - old0) * a1[t]) * exp(old0 - new0) + sum t: exp(b0[t] - new0) * b1[t]
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/fold/fold.h"
#include "substitutions/instance/instance.h"

namespace rewright {

struct FoldLaw {
  RuleInstance instance;
  std::shared_ptr<const void> operators;  // of the instance
};

// The law of carried number `number`. Error: it is not one that can be stated.
absl::StatusOr<FoldLaw> LawOfCarried(const Fold& fold, int number);

}  // namespace rewright
