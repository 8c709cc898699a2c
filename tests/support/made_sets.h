// The rule sets of the generator that tests read: tools/make_rule_sets.sh makes them into the build folder, before the
// tests that have MadeSets in their names (tests/CMakeLists.txt).
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

namespace rewright {

// The file of a set.
inline std::string MadeSet(const std::string& name) {
  return std::string(REWRIGHT_BINARY_DIR) + "/rules/" + name + ".rules";
}

// The names of two that take seconds; of all but the combined one with REWRIGHT_FULL, for which bench/full makes them.
inline std::vector<std::string> MadeSets() {
  std::vector<std::string> names = {"shape", "definitions"};
  if (std::getenv("REWRIGHT_FULL") != nullptr) {
    names.insert(names.end(), {"linear", "conv", "reduce-softmax", "elementwise"});
  }
  return names;
}

}  // namespace rewright
