// True if what an optimization made computes what the original does, proved for both graphs as they are. The rules that
// the search applied are proved; that it applied them rightly, and that what came out is what was asked for, is proved
// here (ProveByClaims in verifier/equal.h): the steps of the search are the claims. Nothing is run.
#pragma once

#include <string>

#include "search/optimize.h"
#include "tools/verb.h"
#include "verifier/equal.h"

namespace rewright {

struct ResultProof {
  bool proved = false;
  std::string text;  // one line: "proved equal as a whole (12 regions)", or "open: " and why
  EqualResult result;
  double seconds = 0;
};

// `rules` are all that steps of the search may name. `time_limit_s` is on the clock; a proof that needs longer is open.
ResultProof ProveResult(const Graph& original, const OptimizeReport& report, const RuleIndex& rules,
                        double time_limit_s);

Json ToJson(const ResultProof& proof);

}  // namespace rewright
