// Folds whose laws are proved when a kernel asks for them.
#pragma once

#include <memory>

#include "core/device/device.h"

namespace rewright {

// `others`, with the folds allowed of which each carried number's law (fold_claims.h) is proved. Proofs are remembered
// by the fold; each takes some milliseconds. Thread-safe.
std::unique_ptr<AllowedKernelRewrites> WithProvedFolds(std::unique_ptr<AllowedKernelRewrites> others);

}  // namespace rewright
