// AllowedKernelRewrites of kernels by the rules that come with the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "substitutions/rule_set.h"

namespace rewright {

// AllowedKernelRewrites by the rules of a set, except those that are switched off by name; names of other rules are
// ignored.
std::unique_ptr<AllowedKernelRewrites> MakeAllowedKernelRewrites(RuleSet rules,
                                                                 const std::vector<std::string>& switched_off = {});

// AllowedKernelRewrites by winograd.rules, whatever their class. The kernels that they allow compute a result anew,
// as the operator says, if it is not finite; their errors are small beside the largest products and not beside each
// result (docs/winograd.md). Rules that cannot be read allow nothing. Errors: a name that none of them has; the message
// lists `others`, which the caller switches off by itself.
absl::StatusOr<std::unique_ptr<AllowedKernelRewrites>> LoadAllowedKernelRewrites(
    const std::vector<std::string>& switched_off = {}, const std::vector<std::string>& others = {});

}  // namespace rewright
