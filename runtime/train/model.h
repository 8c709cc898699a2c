// Models that a configuration describes itself, without a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace rewright {

// Dense layers with an activation between them: x f32[batch, sizes[0]] -> logits f32[batch, sizes.back()].
struct MlpOptions {
  std::vector<int64_t> sizes;  // at least two
  std::string activation = "relu";
};

// The activations: operators of one floating operand.
const std::vector<std::string>& MlpActivations();

// States `layer<i>.weight` [in, out] and `layer<i>.bias` [out], uniform in +-1/sqrt(in); each follows from the seed and
// its name alone.
Graph MakeMlp(const MlpOptions& options, int64_t batch, uint64_t seed);

}  // namespace rewright
