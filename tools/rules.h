// The flags about rules, which several verbs have.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tools/library/optimizer_rules.h"

namespace rewright {

// A name without a folder that is no file here is the file of that name that comes with the program, such as
// laws.rules.
std::string RuleFile(std::string name);

// --rules, --disable-rule, --exact, --assume-finite, --trust-unverified.
void AddRules(CLI::App& app, RuleFlags* flags);

// --no-rule: laws by which no kernel of the device may compute an operator.
void AddNoRule(CLI::App& app, std::vector<std::string>* names);

}  // namespace rewright
