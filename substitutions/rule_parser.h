// Rules from text. Errors name file, line, column, what was found and what was expected:
//   core.rules:12:7: found `)`, expected an operand
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/rule.h"

namespace rewright {

// The rules of `text`, which came from `file` (a name for errors). Names are unique.
absl::StatusOr<std::vector<Rule>> ParseRules(const std::string& text, const std::string& file);

}  // namespace rewright
