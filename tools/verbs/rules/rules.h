// The flags about rules, which several verbs have.
#pragma once

#include <string>
#include <vector>

#include "tools/library/optimizer_rules.h"
#include "tools/program/flags.h"

namespace rewright {

// A name without a folder that is no file here is the file of that name that comes with the program, such as
// laws.rules.
std::string RuleFile(std::string name);

// --rules, --disable-rule, --exact, --assume-finite, --trust-unverified.
void AddRules(CommandLine& line, RuleSettings* settings);

// --no-rule: laws by which no kernel of the device may compute an operator.
void AddNoRule(CommandLine& line, std::vector<std::string>* names);

}  // namespace rewright
