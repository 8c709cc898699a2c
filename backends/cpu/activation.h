// Activation functions known by the values they take: exporters write gelu, swish and others as chains of simpler
// operators.
#pragma once

#include <optional>

#include "backends/cpu/pointwise.h"

namespace rewright::cpu {

enum class Activation : uint8_t { kRelu, kClip, kSigmoid, kTanh, kGelu, kGeluTanh, kSwish, kHardSwish };

// y = max(x, 0) + alpha * min(x, 0) for kRelu, min(max(x, alpha), beta) for kClip; alpha and beta are unused elsewhere.
struct ActivationFunction {
  Activation activation = Activation::kRelu;
  double alpha = 0, beta = 0;
};

// The activation that an operator is by its name, where it is one.
std::optional<ActivationFunction> NamedActivation(const Node& node);

// The activation that a program with one operand computes: it agrees with it at probes over the whole range of f32.
std::optional<ActivationFunction> RecognizeActivation(const PointwiseProgram& program);

}  // namespace rewright::cpu
