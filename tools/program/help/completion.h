// Scripts by which shells complete the command line: verbs, flags, and the choices of their values. Made of the flags
// that the program declares.
#pragma once

#include <string>
#include <vector>

#include "tools/program/verb.h"

namespace CLI {
class App;
}

namespace rewright {

inline const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

// `shell` is one of kShells.
std::string CompletionScript(const CLI::App& app, const std::vector<Verb>& verbs, const std::string& shell);

}  // namespace rewright
