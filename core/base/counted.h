// Counts in text.
#pragma once

#include <cstddef>
#include <string>

namespace rewright {

// "1 region", "12 regions".
inline std::string Counted(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace rewright
