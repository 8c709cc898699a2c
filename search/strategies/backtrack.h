// Cost-guided backtracking around local optima, see search.h.
#pragma once

#include "search/strategies/explorer.h"

namespace rewright {

// Descends, then searches around the optimum.
void Backtrack(Explorer& explorer);

}  // namespace rewright
