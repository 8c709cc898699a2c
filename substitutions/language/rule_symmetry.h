// Finds rules whose outputs may be exchanged: one of each pair of their matches suffices.
#pragma once

#include <cstddef>

#include "substitutions/language/rule.h"

namespace rewright {

// True if exchanging outputs k and k + 1 of the left side gives the same left side and conditions, up to names.
bool OutputsExchange(const Rule& rule, size_t k);

}  // namespace rewright
