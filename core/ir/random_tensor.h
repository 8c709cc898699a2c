// Tensors with random elements, for tests, fingerprints and timings.
#pragma once

#include "core/ir/op.h"
#include "core/ir/tensor.h"

namespace rewright {

// Elements independent and uniform in [low, high]: reals for floating types, integers for integer types (the interval
// holds one), fair coins for booleans. The same sequence of bits gives the same tensor on every machine.
Tensor RandomTensor(const TensorType& type, Rng& rng, double low, double high);

}  // namespace rewright
