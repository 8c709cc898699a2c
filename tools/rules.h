// The flags about rules, which several verbs have.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/library/optimizer_rules.h"

namespace rewright {

// --rules, --disable-rule, --exact, --assume-finite, --trust-unverified.
void AddRules(CLI::App& app, RuleFlags* flags);

}  // namespace rewright
