// The flags about rules, which several verbs have.
#pragma once

#include <string>
#include <vector>

#include "tools/library/optimizer_rules.h"
#include "tools/library/rule_paths.h"
#include "tools/program/flags.h"

namespace rewright {

// Lets each value of a flag be a file, or the name of a set that comes with the program or was made beside it: shape or
// shape.rules. The error of a set of the generator that is not there says how it is made.
Flag RuleFiles(Flag flag);
// The same of a flag with one value.
Flag RuleFile(Flag flag);

// --rules, --disable-rule, --exact, --assume-finite, --trust-unverified.
void AddRules(CommandLine& line, RuleSettings* settings);

// --cost: where costs come from.
void AddCost(CommandLine& line, std::string* cost);

// --disable-kernel-law: laws by which no kernel of the device may compute an operator.
void AddKernelLaws(CommandLine& line, std::vector<std::string>* names);

}  // namespace rewright
