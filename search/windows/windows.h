// Search by windows, see search.h.
#pragma once

#include "search/strategies/explorer.h"

namespace rewright {

// Descends, then searches around the optimum or extracts from e-graphs, window by window.
void SearchWindows(Explorer& explorer);

}  // namespace rewright
