// Rules of a text file as instances, for the verifier's tests.
#pragma once

#include <string>
#include <vector>

#include "substitutions/instance.h"

namespace rewright {

struct RuleCase {
  std::string name;
  std::string expect;  // proved, refuted, unknown
  std::vector<RuleInstance> instances;
};

// The rules of tests/verifier/<file>, instantiated at small ranks. A rule that does not compile fails the test.
std::vector<RuleCase> LoadRules(const std::string& file);

}  // namespace rewright
