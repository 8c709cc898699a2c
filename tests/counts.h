// How many cases the heavy property tests run: all of them when REWRIGHT_FULL is set (bench/full), a tenth otherwise,
// or another part where cases are slow; a third of that under sanitizers, which slow them down and look at something
// else.
#pragma once

#include <cstdlib>

namespace rewright {

inline int Cases(int whole, int part = 10) {
#ifdef __SANITIZE_ADDRESS__
  part *= 3;
#endif
  return std::getenv("REWRIGHT_FULL") != nullptr ? whole : (whole + part - 1) / part;
}

}  // namespace rewright
