// The order in which the applications of a left side are matched.
#pragma once

#include <vector>

namespace rewright {

class CompiledRule;

// See CompiledRule::match_order() and entry_paths(). False when an output shares nothing with those before it, or a
// node of the left side is no part of an output.
bool PlanMatch(const CompiledRule& rule, std::vector<int>* order, std::vector<std::vector<int>>* paths);

}  // namespace rewright
