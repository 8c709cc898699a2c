#include "backends/cpu/activation.h"

#include <cmath>

#include "core/ir/functions.h"

namespace rewright::cpu {
namespace {

double Evaluate(const PointwiseInstruction& instruction, double a, double b, double c) {
  if (instruction.op == kTileSelect) return a != 0 ? b : c;
  if (instruction.op == kTileCopy) return a;
  return EvaluateReal(static_cast<Fn>(instruction.op), a, b);
}

double Evaluate(const PointwiseProgram& program, double x) {
  std::vector<double> values = {x};
  for (const PointwiseConstant& constant : program.constants) {
    values.push_back(IsFloating(constant.dtype) ? constant.real : static_cast<double>(constant.integer));
  }
  auto at = [&](int value) { return value < 0 ? 0.0 : values[value]; };
  for (const PointwiseInstruction& i : program.instructions) {
    values.push_back(Evaluate(i, at(i.a), at(i.b), at(i.c)));
  }
  return at(program.result);
}

double Gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double GeluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double Swish(double x) { return x / (1 + std::exp(-x)); }
double HardSwish(double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Relu(double x) { return std::max(x, 0.0); }

bool Agrees(const PointwiseProgram& program, double (*f)(double)) {
  for (double magnitude : {0.0, 1e-20, 1e-3, 0.01, 0.1, 0.3, 0.5,  0.77, 1.0, 1.5, 2.2, 2.9,
                           3.1, 4.0,   5.3,  5.9,  6.1, 8.0, 20.0, 60.0, 1e3, 1e6, 1e12}) {
    for (double x : {magnitude, -magnitude}) {
      const double expected = f(x), found = Evaluate(program, x);
      if (!(std::abs(expected - found) <= 2e-6 * std::abs(expected) + 1e-7 * std::min(1.0, magnitude))) return false;
    }
  }
  return true;
}

double RealAttribute(const Node& node, const char* name) { return std::get<double>(node.attrs.at(name)); }

}  // namespace

std::optional<ActivationFunction> NamedActivation(const Node& node) {
  const std::string& name = node.op->name;
  if (name == "relu") return ActivationFunction{Activation::kRelu, 0, 0};
  if (name == "leaky_relu") return ActivationFunction{Activation::kRelu, RealAttribute(node, "alpha"), 0};
  if (name == "clip") {
    const double low = RealAttribute(node, "min"), high = RealAttribute(node, "max");
    if (low > high) return std::nullopt;
    return ActivationFunction{Activation::kClip, low, high};
  }
  if (name == "sigmoid") return ActivationFunction{Activation::kSigmoid, 0, 0};
  if (name == "tanh") return ActivationFunction{Activation::kTanh, 0, 0};
  if (name == "gelu") return ActivationFunction{Activation::kGelu, 0, 0};
  return std::nullopt;
}

std::optional<ActivationFunction> RecognizeActivation(const PointwiseProgram& program) {
  if (program.operands.size() != 1 || program.dtype != DType::kFloat32) return std::nullopt;
  const std::pair<Activation, double (*)(double)> known[] = {
      {Activation::kGelu, Gelu},           {Activation::kGeluTanh, GeluTanh}, {Activation::kSwish, Swish},
      {Activation::kHardSwish, HardSwish}, {Activation::kSigmoid, Sigmoid},   {Activation::kRelu, Relu}};
  for (const auto& [activation, f] : known) {
    if (Agrees(program, f)) return ActivationFunction{activation, 0, 0};
  }
  return std::nullopt;
}

}  // namespace rewright::cpu
