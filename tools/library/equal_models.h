// The common work of proving two models equal, for the verbs and for rewright/equal.h: rules, what models must have in
// common.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/onnx/onnx.h"
#include "tools/library/optimizer_rules.h"
#include "verifier/equal/equal.h"

namespace rewright {

// The rules by which two models are proved equal: those of the settings, and those that come with the program.
absl::StatusOr<OptimizerRules> LoadEqualRules(RuleSettings settings);

// The differences between defaults of inputs that both models have, a line each.
std::vector<std::string> DefaultDifferences(const ImportedModel& a, const ImportedModel& b);
// An error that lists them.
absl::Status CheckDefaults(const ImportedModel& a, const ImportedModel& b);

// "y at [4,7]: 0.0137 in A, 0.0173 in B; rounding explains 3.2e-05"
std::string DifferenceText(const ModelDifference& difference);

}  // namespace rewright
