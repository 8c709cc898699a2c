// Settings and files that verbs about two equal models share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/tensor/tensor.h"
#include "tools/library/equal_models.h"
#include "tools/program/verb.h"
#include "verifier/equal/equal.h"

namespace rewright {

// Options of a proof with these rules, with the seed and the threads of the command line.
EqualOptions OptionsOfProof(const OptimizerRules& rules, const Session& session);

// The name of a tensor as part of a file name: what is no letter, digit, dot or dash becomes an underscore.
std::string NpyNameOf(const std::string& name);

// The tensors as files NAME.npy of a folder, which is made.
absl::Status WriteInputs(const std::string& folder, const std::vector<std::pair<std::string, Tensor>>& inputs);

}  // namespace rewright
