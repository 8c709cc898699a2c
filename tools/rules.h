// The rules that a verb works with: which files, which rules of them.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "substitutions/rule_set.h"

namespace rewright {

struct RuleFlags {
  std::vector<std::string> files;  // empty: those that come with the program
  std::vector<std::string> disabled;
  bool exact = false;
  bool trust_unverified = false;
  bool assume_finite = false;
};

// --rules, --disable-rule, --exact, --assume-finite, --trust-unverified.
void AddRules(CLI::App& app, RuleFlags* flags);

// The files that the flags name, or those that come with the program.
absl::StatusOr<std::vector<std::string>> RuleFiles(const RuleFlags& flags);

// Errors: those of RuleSet::FromFiles.
absl::StatusOr<RuleIndex> LoadRules(const RuleFlags& flags);

// How the rules of a file are loaded, apart from the files.
LoadOptions LoadOptionsOf(const RuleFlags& flags);

}  // namespace rewright
