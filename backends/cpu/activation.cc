#include "backends/cpu/activation.h"

#include <utility>

#include "backends/attrs.h"
#include "core/ops/ops.h"

namespace rewright::cpu {

std::optional<ActivationFunction> ActivationOf(const Node& node) {
  static const std::pair<const OpDef*, Activation> plain[] = {
      {ops::Relu(), Activation::kRelu},          {ops::Sigmoid(), Activation::kSigmoid},
      {ops::Tanh(), Activation::kTanh},          {ops::Gelu(), Activation::kGelu},
      {ops::GeluTanh(), Activation::kGeluTanh},  {ops::Swish(), Activation::kSwish},
      {ops::HardSwish(), Activation::kHardSwish}};
  for (const auto& [op, activation] : plain) {
    if (node.op == op) return ActivationFunction{activation};
  }
  if (node.op == ops::LeakyRelu()) return ActivationFunction{Activation::kRelu, Real(node, "alpha")};
  if (node.op == ops::Clip()) {
    const double low = Real(node, "min"), high = Real(node, "max");
    if (low <= high) return ActivationFunction{Activation::kClip, low, high};
  }
  return std::nullopt;
}

}  // namespace rewright::cpu
