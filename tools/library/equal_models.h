// The common work of proving two models equal, for the verbs and for rewright/equal.h: rules, what models must have in
// common.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
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

// A size of dimensions that are not given, at which models differ that are the same at 1: a sum along them, or a
// broadcast, tells. Models that do not admit it are read at 1.
inline constexpr int64_t kTellingSize = 3;
// False: an input has another type in each, or a model could not be read.
bool ReadAlike(const absl::StatusOr<std::pair<ImportedModel, ImportedModel>>& models);
// ", at batch=3" of models with symbolic dimensions; nothing of others.
std::string SizesText(const std::map<std::string, int64_t>& dims);
// The sizes of both.
std::map<std::string, int64_t> SizesOfBoth(const ImportedModel& a, const ImportedModel& b);

// "y at [4,7]: 0.0137 in A, 0.0173 in B; rounding explains 3.2e-05"
std::string DifferenceText(const ModelDifference& difference);

}  // namespace rewright
