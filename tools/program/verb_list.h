// The verbs of the program, with their groups and examples.
#pragma once

#include <vector>

#include "tools/program/verb.h"

namespace rewright {

// All verbs in the order of the help page.
std::vector<Verb> AllVerbs();

}  // namespace rewright
