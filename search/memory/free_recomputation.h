// Finds values that are computed again at next to no cost: pointwise functions, which are fused into their readers.
#pragma once

#include "search/memory/activation_lifetimes.h"

namespace rewright {

// `kept` without the pointwise tensors that late readers can compute from the other kept ones, so that the fewest bytes
// wait at its end.
Residencies KeptWithoutFree(const ActivationLifetimes& waiting, const Residencies& kept);

}  // namespace rewright
