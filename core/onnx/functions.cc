// Functions of one operand that are an operator here and in ONNX, with the same real attributes: for import and export.
#include "core/onnx/operators.h"

namespace rewright {

const std::vector<OnnxFunction>& OnnxFunctions() {
  // Our operator, ONNX's, the first opset that has it (13 is the lowest that is written: an operator that came later
  // has a form of its own in export_ops.cc), the newest version of its definition, and attributes.
  // clang-format off
  static const auto* const functions = new std::vector<OnnxFunction>{
      {"abs", "Abs", 1, 13},
      {"acos", "Acos", 7, 22},
      {"acosh", "Acosh", 9, 22},
      {"asin", "Asin", 7, 22},
      {"asinh", "Asinh", 9, 22},
      {"atan", "Atan", 7, 22},
      {"atanh", "Atanh", 9, 22},
      {"ceil", "Ceil", 1, 13},
      {"cos", "Cos", 7, 22},
      {"cosh", "Cosh", 9, 22},
      {"elu", "Elu", 6, 22, {{"alpha", 1.0f}}},
      {"erf", "Erf", 9, 13},
      {"exp", "Exp", 1, 13},
      {"floor", "Floor", 1, 13},
      {"leaky_relu", "LeakyRelu", 6, 16, {{"alpha", 0.01f}}},
      {"log", "Log", 1, 13},
      {"logical_not", "Not", 1, 1},
      {"neg", "Neg", 1, 13},
      {"reciprocal", "Reciprocal", 1, 13},
      {"round", "Round", 11, 22},
      {"sigmoid", "Sigmoid", 1, 13},
      {"sign", "Sign", 9, 13},
      {"sin", "Sin", 7, 22},
      {"sinh", "Sinh", 9, 22},
      {"softplus", "Softplus", 1, 22},
      {"sqrt", "Sqrt", 1, 13},
      {"tan", "Tan", 7, 22},
      {"tanh", "Tanh", 1, 13},
  };
  // clang-format on
  return *functions;
}

}  // namespace rewright
