// Licences of kernels by the rules that come with the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "substitutions/rule_set.h"

namespace rewright {

// By the rules of a set but those that are switched off by name; names of other rules are none of its concern.
std::unique_ptr<Licences> MakeLicences(RuleSet rules, const std::vector<std::string>& switched_off = {});

// By winograd.rules. Rules that hold for finite values alone are among them: the kernels that they license compute
// anew, as the operator says, where a result is not finite. Rules that cannot be read license nothing. Errors: a name
// that none of them has.
absl::StatusOr<std::unique_ptr<Licences>> LoadLicences(const std::vector<std::string>& switched_off = {});

}  // namespace rewright
