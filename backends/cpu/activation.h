// Activation functions that kernels apply to what they compute before it is stored.
#pragma once

#include <cstdint>
#include <optional>

#include "core/ir/graph.h"

namespace rewright::cpu {

enum class Activation : uint8_t { kRelu, kClip, kSigmoid, kTanh, kGelu, kGeluTanh, kSwish, kHardSwish };

// y = max(x, 0) + alpha * min(x, 0) for kRelu, min(max(x, alpha), beta) for kClip; alpha and beta are unused elsewhere.
struct ActivationFunction {
  Activation activation = Activation::kRelu;
  double alpha = 0, beta = 0;
};

// The activation that an operator is, where it is one. What exporters write as chains of simpler operators is brought
// to these by proved rules, before a device sees it.
std::optional<ActivationFunction> ActivationOf(const Node& node);

}  // namespace rewright::cpu
