// Rules read from right to left.
#pragma once

#include <memory>
#include <optional>

#include "substitutions/egraph/egraph.h"

namespace rewright {

// Exchanges the sides of the rule. It keeps the conditions and gives each variable's shape where the variable now
// occurs first. The result may fail to compile.
Rule ReverseRule(const Rule& rule);

// Null when the right side does not bind all names of the left side, or is a lone variable: no place to start from.
std::shared_ptr<const Matcher> ReverseMatcher(const Matcher& forward);

// True if `forward` matches the left sides in `replacement` and leads back to what `match` matched: then the proof of
// `forward` covers the equality. `match` is a match of the reversed rule; `replacement` is what the reversed rule gives
// there.
bool LeadsBack(EGraph& egraph, const Matcher& forward, const Match& match, const ValueMap& replacement);

}  // namespace rewright
