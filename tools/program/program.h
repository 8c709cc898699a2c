// The program: its verbs, and how one is run.
#pragma once

#include <string>
#include <vector>

#include "tools/program/verb_list.h"

namespace rewright {

// Parses `arguments` (without the program's name), runs the verb, gives the exit status.
int RunProgram(const std::vector<std::string>& arguments);

// Reads a command line and gives its fault; empty: none.
std::string WrongArguments(const std::vector<std::string>& arguments);

}  // namespace rewright
