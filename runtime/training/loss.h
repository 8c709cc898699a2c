// Losses as graphs of the operators that there are.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

enum class LossKind : uint8_t {
  kCrossEntropy,      // softmax cross entropy of logits [n.., classes] and labels i64[n..]: -log softmax(logits)[label]
  kMeanSquaredError,  // (prediction - target)^2, both of one type and shape [n, ..]
};

// The type of the target for a prediction of that type. Error: no loss of that kind is defined for it.
absl::StatusOr<TensorType> TargetType(LossKind kind, const TensorType& prediction);

struct LossGraph {
  Value samples;  // [n]: the loss of each sample, the mean over its other axes
  Value correct;  // [n]: the share of a sample's labels that have the largest logit; no node for other losses
  Value mean;     // []: over the samples
};

// REQUIRES: `target` is of the type that TargetType gives.
LossGraph AddLoss(Arena& arena, LossKind kind, Value prediction, Value target);

}  // namespace rewright
