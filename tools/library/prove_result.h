// Proves that the result of an optimization computes the same as the original, for both graphs as they are. The rules
// that the search applied are proved; the proof here shows that it applied them rightly, and that the result is the one
// asked for (ProveByClaims in verifier/equal/equal_by_claims.h): the steps of the search are the claims. Nothing is
// run.
#pragma once

#include <string>

#include "core/base/stop.h"
#include "search/optimize/optimize.h"
#include "verifier/equal/equal.h"

namespace rewright {

struct ResultProof {
  bool proved = false;
  std::string text;  // one line: "proved equal as a whole (12 regions)", or "open: " and why
  EqualResult result;
  double seconds = 0;
};

// `rules` are all that steps of the search may name. `time_limit_s` is on the clock; a proof that needs longer is open,
// and so is one that `stop` ends (null: nothing does).
ResultProof ProveResult(const Graph& original, const OptimizeReport& report, const RuleIndex& rules,
                        double time_limit_s, StopFlag stop = nullptr);

}  // namespace rewright
