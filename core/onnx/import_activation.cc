// Activation functions; those without an operator of their own are written out.
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

Values Same(OnnxNode& node) { return OneOutput(node.Apply(node.op(), node.inputs())); }

Values Gelu(OnnxNode& node) {
  const absl::StatusOr<std::string> approximate = node.String("approximate", "none");
  if (!approximate.ok()) return approximate.status();
  if (*approximate == "none") return OneOutput(node.Apply("gelu", {node.input(0)}));
  if (*approximate == "tanh") return OneOutput(node.Apply("gelu_tanh", {node.input(0)}));
  return node.Invalid("attribute approximate is \"" + *approximate + "\"");
}

// min(max(alpha*x + beta, 0), 1)
Values HardSigmoid(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 0.2f));
  ASSIGN_OR_RETURN(const double beta, node.Float("beta", 0.5f));
  const Value x = node.input(0);
  Formula f(node);
  // A sixth is no number of a type, and what exporters mean by the nearest one; hard_swish is made of it.
  const bool sixth = alpha == static_cast<double>(1.0f / 6);
  const Value scaled = sixth ? f("div", {x, f.Number(x, 6)}) : f("mul", {x, f.Number(x, alpha)});
  return f.Output(f("clip", {f("add", {scaled, f.Number(x, beta)})}, {{"min", 0.0}, {"max", 1.0}}));
}

Values Selu(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1.67326319217681884765625));
  ASSIGN_OR_RETURN(const double gamma, node.Float("gamma", 1.05070102214813232421875));
  const Value x = node.input(0);
  Formula f(node);
  return f.Output(f("mul", {f("elu", {x}, {{"alpha", alpha}}), f.Number(x, gamma)}));
}

// elu(x / alpha) * alpha, the positive side of which is x
Values Celu(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1));
  const Value x = node.input(0);
  Formula f(node);
  if (alpha == 1) return f.Output(f("elu", {x}));
  const Value negative = f("elu", {f("div", {x, f.Number(x, alpha)})}, {{"alpha", alpha}});
  return f.Output(f("where", {f("less", {f.Number(x, 0), x}), x, negative}));
}

Values PRelu(OnnxNode& node) {
  const Value x = node.input(0);
  Formula f(node);
  return f.Output(f("where", {f("less", {x, f.Number(x, 0)}), f("mul", {x, node.input(1)}), x}));
}

Values Softsign(OnnxNode& node) {
  const Value x = node.input(0);
  Formula f(node);
  return f.Output(f("div", {x, f("add", {f("abs", {x}), f.Number(x, 1)})}));
}

// x * sigmoid(alpha * x)
Value SwishOf(Formula& f, Value x, double alpha) {
  return alpha == 1 ? f("swish", {x}) : f("mul", {x, f("sigmoid", {f("mul", {x, f.Number(x, alpha)})})});
}

Values Swish(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1));
  Formula f(node);
  return f.Output(SwishOf(f, node.input(0), alpha));
}

Values SwiGlu(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1));
  Formula f(node);
  return f.Output(f("mul", {SwishOf(f, node.input(0), alpha), node.input(1)}));
}

Values ThresholdedRelu(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1));
  const Value x = node.input(0);
  Formula f(node);
  return f.Output(f("where", {f("less", {f.Number(x, alpha), x}), x, f.Number(x, 0)}));
}

// x < -lambd ? x + bias : x > lambd ? x - bias : 0
Values Shrink(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double lambd, node.Float("lambd", 0.5));
  ASSIGN_OR_RETURN(const double bias, node.Float("bias", 0));
  const Value x = node.input(0);
  Formula f(node);
  const Value above =
      f("where", {f("less", {f.Number(x, lambd), x}), f("sub", {x, f.Number(x, bias)}), f.Number(x, 0)});
  return f.Output(f("where", {f("less", {x, f.Number(x, -lambd)}), f("add", {x, f.Number(x, bias)}), above}));
}

}  // namespace

OnnxOperatorList ActivationOperators() {
  return {
      {"Relu", {1, 14, 1, 1, Same, "relu"}},
      {"Gelu", {20, 20, 1, 1, Gelu}},
      {"HardSigmoid", {6, 22, 1, 1, HardSigmoid}},
      {"HardSwish", {14, 22, 1, 1, Same, "hard_swish"}},
      {"Selu", {6, 22, 1, 1, Selu}},
      {"Celu", {12, 28, 1, 1, Celu}},
      {"PRelu", {7, 16, 2, 2, PRelu}},
      {"Softsign", {1, 22, 1, 1, Softsign}},
      {"Mish", {18, 22, 1, 1, Same, "mish"}},
      {"Swish", {24, 24, 1, 1, Swish}},
      {"SwiGLU", {28, 28, 2, 2, SwiGlu}},
      {"ThresholdedRelu", {10, 22, 1, 1, ThresholdedRelu}},
      {"Shrink", {9, 9, 1, 1, Shrink}},
  };
}

}  // namespace rewright
