#include "tools/library/equal_models.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace rewright {

absl::StatusOr<OptimizerRules> LoadEqualRules(RuleSettings settings) {
  settings.assume_finite = true;  // laws of real numbers
  if (settings.rules.empty()) {
    // Rules without a gain for a search are laws all the same.
    ASSIGN_OR_RETURN(std::string core, FindRuleFile("core.rules"));
    ASSIGN_OR_RETURN(std::string laws, FindRuleFile("laws.rules"));
    settings.rules = {std::move(core), std::move(laws)};
    settings.baseline = true;
  }
  return LoadOptimizerRules(settings);
}

std::vector<std::string> DefaultDifferences(const ImportedModel& a, const ImportedModel& b) {
  std::vector<std::string> lines;
  std::set<std::string> in_both;
  for (Value input : b.graph.inputs()) in_both.insert(b.graph.node(input.node).name);
  for (Value input : a.graph.inputs()) {
    const std::string& name = a.graph.node(input.node).name;
    if (!in_both.contains(name)) continue;
    const auto in_a = a.metadata.defaults.find(name), in_b = b.metadata.defaults.find(name);
    const bool has_a = in_a != a.metadata.defaults.end(), has_b = in_b != b.metadata.defaults.end();
    if (has_a != has_b) {
      lines.push_back(absl::StrCat("input ", name, has_a ? ": a default and none" : ": no default and one"));
    } else if (has_a && !in_a->second.BitEqual(in_b->second)) {
      lines.push_back(absl::StrCat("input ", name, ": different defaults"));
    }
  }
  return lines;
}

absl::Status CheckDefaults(const ImportedModel& a, const ImportedModel& b) {
  const std::vector<std::string> differences = DefaultDifferences(a, b);
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the models do not have the same inputs (of A and of B)\n  ", absl::StrJoin(differences, "\n  ")));
}

std::string DifferenceText(const ModelDifference& difference) {
  return absl::StrFormat("%s at [%s]: %.9g in A, %.9g in B; rounding explains %.2g", difference.output,
                         absl::StrJoin(difference.at, ","), difference.a, difference.b, difference.tolerance);
}

}  // namespace rewright
