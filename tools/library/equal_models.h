// The common work of proving two models equal, for the verbs and for rewright/equal.h: rules, what models must have in
// common.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
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

using ModelPair = std::pair<ImportedModel, ImportedModel>;

// Reads two models with dimensions that are not given at 3, where models differ that are the same at 1: a sum along
// them, or a broadcast, tells. At 1 where `read` fails at 3, or an input has another type in each.
absl::StatusOr<ModelPair> ReadWhereSizesTell(
    ImportOptions options, absl::FunctionRef<absl::StatusOr<ModelPair>(const ImportOptions&)> read);
// ", at batch=3" of models with symbolic dimensions; nothing of others.
std::string SizesText(const std::map<std::string, int64_t>& dims);
// The sizes of both.
std::map<std::string, int64_t> SizesOfBoth(const ImportedModel& a, const ImportedModel& b);

// "y at [4,7]: 0.0137 in A, 0.0173 in B; rounding explains 3.2e-05"
std::string DifferenceText(const ModelDifference& difference);

}  // namespace rewright
