#include "core/onnx/functions.h"

namespace rewright {

const std::vector<OnnxFunction>& OnnxFunctions() {
  // The columns: the operator here, ONNX's, the first opset that has it, the newest version of its definition,
  // operands, and attributes. If an older opset has another form of the operator, export/ops.cc has that form, and the
  // operator is not listed here.
  // clang-format off
  static const auto* const functions = new std::vector<OnnxFunction>{
      {"abs", "Abs", 1, 13},
      {"acos", "Acos", 7, 22},
      {"acosh", "Acosh", 9, 22},
      {"add", "Add", 7, 14, 2},
      {"asin", "Asin", 7, 22},
      {"asinh", "Asinh", 9, 22},
      {"atan", "Atan", 7, 22},
      {"atanh", "Atanh", 9, 22},
      {"bit_and", "BitwiseAnd", 18, 18, 2},
      {"bit_or", "BitwiseOr", 18, 18, 2},
      {"bit_xor", "BitwiseXor", 18, 18, 2},
      {"ceil", "Ceil", 1, 13},
      {"cos", "Cos", 7, 22},
      {"cosh", "Cosh", 9, 22},
      {"div", "Div", 7, 14, 2},
      {"elu", "Elu", 6, 22, 1, {{"alpha", 1.0f}}},
      {"equal", "Equal", 7, 19, 2},
      {"erf", "Erf", 9, 13},
      {"exp", "Exp", 1, 13},
      {"floor", "Floor", 1, 13},
      {"leaky_relu", "LeakyRelu", 6, 16, 1, {{"alpha", 0.01f}}},
      {"less", "Less", 7, 13, 2},
      {"less_equal", "LessOrEqual", 12, 16, 2},
      {"log", "Log", 1, 13},
      {"logical_and", "And", 7, 7, 2},
      {"logical_not", "Not", 1, 1},
      {"logical_or", "Or", 7, 7, 2},
      {"logical_xor", "Xor", 7, 7, 2},
      {"mul", "Mul", 7, 14, 2},
      {"neg", "Neg", 1, 13},
      {"reciprocal", "Reciprocal", 1, 13},
      {"round", "Round", 11, 22},
      {"sigmoid", "Sigmoid", 1, 13},
      {"sign", "Sign", 9, 13},
      {"sin", "Sin", 7, 22},
      {"sinh", "Sinh", 9, 22},
      {"softplus", "Softplus", 1, 22},
      {"sqrt", "Sqrt", 1, 13},
      {"sub", "Sub", 7, 14, 2},
      {"tan", "Tan", 7, 22},
      {"tanh", "Tanh", 1, 13},
      {"where", "Where", 9, 16, 3},
  };
  // clang-format on
  return *functions;
}

}  // namespace rewright
