// The rules that an optimization works with: which files, which rules of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/baseline/baseline.h"
#include "substitutions/rule_set.h"
#include "tools/library/rewright/rewright.h"

namespace rewright {

// Errors: those of RuleSet::FromFiles. `reader`: for who loads several sets.
absl::StatusOr<RuleIndex> LoadRules(const RuleSettings& settings, RuleReader* reader = nullptr);

// The rules of an optimization.
struct OptimizerRules {
  RuleIndex rules;                   // of the search
  std::optional<Baseline> baseline;  // its second start
  RuleIndex all;                     // the rules of both
  std::vector<std::string> files;    // that they come from
};
absl::StatusOr<OptimizerRules> LoadOptimizerRules(const RuleSettings& settings);
// The hash of the laws of all rules, in their order, and of whether there is a baseline.
std::string HashOf(const OptimizerRules& rules);

// The options to load rules, apart from the files.
LoadOptions LoadOptionsOf(const RuleSettings& settings);

}  // namespace rewright
