// The program: its verbs, and how one is run.
#pragma once

#include <string>
#include <vector>

#include "tools/program/verb.h"

namespace rewright {

// All verbs in the order of the help page.
std::vector<Verb> AllVerbs();

// Parses `arguments` (without the program's name), runs the verb, gives the exit status.
int RunProgram(const std::vector<std::string>& arguments);

// What is wrong with a command line, which is only read; empty: nothing.
std::string WrongArguments(const std::vector<std::string>& arguments);

}  // namespace rewright
