// Parses rules. Errors name file, line, column, the text found and the text expected:
//   core.rules:12:7: found `)`, expected an operand
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/language/rule.h"

namespace rewright {

// The rules of `text`, which came from `file` (a name for errors). Names are unique.
absl::StatusOr<std::vector<Rule>> ParseRules(const std::string& text, const std::string& file);

// A rule of a text, or its errors.
struct ParsedRule {
  std::string name;
  absl::StatusOr<Rule> rule;
};

// The rules of a text each by itself, so that one that makes no sense leaves the others whole. Comments are left out;
// nothing where the text does not begin with a rule.
std::vector<ParsedRule> ParseEachRule(const std::string& text, const std::string& file);

}  // namespace rewright
