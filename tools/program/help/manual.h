// The manual page rewright(1), made of the program's verbs and flags.
#pragma once

#include <string>
#include <vector>

#include "tools/program/verb.h"

namespace CLI {
class App;
}

namespace rewright {

// The page in the macros of man(7).
std::string ManualPage(const CLI::App& app, const std::vector<Verb>& verbs);

}  // namespace rewright
