// Whether a path of rewrites applies at every size of a model's symbolic dimensions, and not only where it was tried.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "core/index/fit.h"
#include "search/replay/resize.h"

namespace rewright {

// `samples`: the path replayed at the samples of the fit, nothing left out. What the rules bound there are forms of the
// names, over which each step's conditions are evaluated: they hold for all names that are at least 1, or this is an
// error (kFailedPrecondition) that names the rule. So is a size bound by a rule that may be less than 1, and a number
// that is no form of the names. `failed` gets the step, by its number among those that were taken.
absl::Status AppliesAtAllSizes(const std::vector<Resized>& samples, index::SizeFit& fit, int* failed = nullptr);

}  // namespace rewright
