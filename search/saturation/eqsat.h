// Equality saturation, see search.h.
#pragma once

#include "search/strategies/explorer.h"

namespace rewright {

// Descends, then extracts from e-graphs.
void SaturateAndExtract(Explorer& explorer);

}  // namespace rewright
