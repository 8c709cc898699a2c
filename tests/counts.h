// How many cases the heavy property tests run: all of them when REWRIGHT_FULL is set (bench/full), a tenth otherwise,
// or another part where cases are slow.
#pragma once

#include <cstdlib>

namespace rewright {

inline int Cases(int whole, int part = 10) {
  return std::getenv("REWRIGHT_FULL") != nullptr ? whole : (whole + part - 1) / part;
}

}  // namespace rewright
