// Checks that a path of rewrites applies at every size of a model's symbolic dimensions, not only where it was tried.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "core/index/fit.h"
#include "search/replay/resize.h"

namespace rewright {

// `samples` is the path replayed at the samples of the fit, nothing left out. Values bound there by the rules are forms
// of the names. Each step's conditions are evaluated over these forms: if one does not hold for all names that are at
// least 1, the error (kFailedPrecondition) names the rule. A size bound by a rule that may be less than 1 is an error,
// and so is a number that is no form of the names. `failed` gets the step, by its number among those that were taken.
absl::Status AppliesAtAllSizes(const std::vector<Resized>& samples, index::SizeFit& fit, int* failed = nullptr);

}  // namespace rewright
