// Rules read from right to left.
#pragma once

#include <memory>
#include <optional>

#include "substitutions/egraph/egraph.h"

namespace rewright {

// The rule with its sides exchanged, its conditions kept and its variables' shapes given where they now occur first.
// Whether it compiles is another question.
Rule ReverseRule(const Rule& rule);

// Null when the right side does not bind all names of the left side, or is a lone variable: no place to start from.
std::shared_ptr<const Matcher> ReverseMatcher(const Matcher& forward);

// `match` is one of the reversed rule, `replacement` what it gives: left sides of `forward`. Whether `forward` matches
// these left sides and leads back to what was matched: then its proof covers the equality.
bool LeadsBack(EGraph& egraph, const Matcher& forward, const Match& match, const ValueMap& replacement);

}  // namespace rewright
