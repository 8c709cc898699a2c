// How many cases the heavy property tests run: all of them when REWRIGHT_FULL is set (bench/full), a tenth otherwise.
#pragma once

#include <cstdlib>

namespace rewright {

inline int Cases(int whole) { return std::getenv("REWRIGHT_FULL") != nullptr ? whole : (whole + 9) / 10; }

}  // namespace rewright
