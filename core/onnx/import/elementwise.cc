// Elementwise operators: arithmetic, comparisons, selections, activation functions.
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/status_macros.h"
#include "core/onnx/functions.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// Applies the operator of the table's entry to the inputs.
Values Same(OnnxNode& node) { return OneOutput(node(node.op(), node.inputs())); }

// Applies it with the operands exchanged: a > b is b < a.
Values Exchanged(OnnxNode& node) { return OneOutput(node(node.op(), {node.input(1), node.input(0)})); }

// Applies Min, Max or Sum to any number of inputs, from the left.
Value FoldInputs(OnnxNode& node, const std::string& op) {
  const std::vector<Value> inputs = node.inputs();
  Value result = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) result = node(op, {result, inputs[i]});
  return result;
}

Values Variadic(OnnxNode& node) { return OneOutput(FoldInputs(node, node.op())); }

Values Mean(OnnxNode& node) {
  const Value sum = FoldInputs(node, "add");
  const double count = static_cast<double>(node.inputs().size());
  return OneOutput(count == 1 ? sum : node("div", {sum, node.Number(sum, count)}));
}

// The bits of the elements, without sign; of the type where they are not known.
int BitsOfElements(OnnxNode& node, Value value) {
  const Tensor* const tensor = node.KnownTensor(value);
  const DType dtype = node.type(value).dtype;
  if (tensor == nullptr) return IsUnsigned(dtype) ? BitsOf(dtype) : BitsOf(dtype) - 1;
  uint64_t set = 0;
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    const int64_t element = tensor->AtInt(i);
    if (element >= 0 || IsUnsigned(dtype)) set |= static_cast<uint64_t>(element);
  }
  return std::bit_width(set);
}

// x to the power of integers, wrapping around: the product of the repeated squares of x that belong to the exponent's
// set bits. A negative exponent gives 0, except for bases 1 and -1.
Value IntegerPower(OnnxNode& node, Value x, Value exponent) {
  const auto number = [&](double value) { return node.Number(exponent, value); };
  const Value zero = node.Number(x, 0), one = node.Number(x, 1);
  const Value parity = node("bit_and", {exponent, number(1)});
  // Returns the value of a condition that is known and equal at all elements.
  const auto known = [&](Value condition) -> std::optional<bool> {
    const Tensor* const tensor = node.KnownTensor(condition);
    if (tensor == nullptr || tensor->num_elements() == 0) return std::nullopt;
    for (int64_t i = 1; i < tensor->num_elements(); ++i) {
      if (tensor->AtInt(i) != tensor->AtInt(0)) return std::nullopt;
    }
    return tensor->AtInt(0) != 0;
  };
  std::optional<Value> product;
  Value factor = x;
  for (int bit = 0, bits = BitsOfElements(node, exponent); bit < bits; ++bit) {
    if (bit > 0) factor = node("mul", {factor, factor});
    const Value set = node("not_equal", {node("bit_and", {exponent, number(std::ldexp(1, bit))}), number(0)});
    const std::optional<bool> is_set = known(set);
    if (is_set == false) continue;
    const Value more = product ? node("mul", {*product, factor}) : factor;
    product = is_set ? more : node("where", {set, more, product.value_or(one)});
  }
  const Shape shape = node.shape(node("where", {node("less", {exponent, number(0)}), x, x}));
  const Value power = node.Expand(product.value_or(one), shape);
  if (IsUnsigned(node.type(exponent).dtype)) return power;
  const Value negative = node("less", {exponent, number(0)});
  if (known(negative) == false) return power;
  Value is_unit = node("equal", {x, one});
  if (!IsUnsigned(node.type(x).dtype)) is_unit = node("logical_or", {is_unit, node("equal", {x, node.Number(x, -1)})});
  const Value unit = node("where", {node("equal", {parity, number(1)}), x, one});
  return node("where", {negative, node("where", {is_unit, unit, zero}), power});
}

// True if the elements are known and are exact numbers of that type.
bool AreKnown(const Tensor* tensor, DType dtype) {
  constexpr double kExact = 0x1p53;
  for (int64_t i = 0; tensor != nullptr && i < tensor->num_elements(); ++i) {
    const double value = tensor->At(i);
    if (!IsFloating(dtype) && !(std::abs(value) < kExact)) return false;
    if (Tensor::Scalar(dtype, value).At(0) != value) return false;
  }
  return tensor != nullptr;
}

// Returns the type in which powers are computed if exponents and base have different types: the base's if it holds the
// exponents, else one that does.
DType PowerType(OnnxNode& node) {
  const DType base = node.input_type(0).dtype, exponent = node.input_type(1).dtype;
  const Tensor* const known = node.KnownTensor(node.input(1));
  if (!IsFloating(base)) return DType::kFloat64;
  if (base == exponent || AreKnown(known, base)) return base;
  if (base == DType::kFloat64 || exponent == DType::kFloat64) return DType::kFloat64;
  if (IsHalf(base)) return DType::kFloat32;
  return known != nullptr ? DType::kFloat64 : base;
}

// The exponent may be of another type; the result has the type of the base.
Values Pow(OnnxNode& node) {
  const DType dtype = node.input_type(0).dtype;
  const Value exponent = node.input(1);
  if (IsInteger(dtype)) {
    if (IsInteger(node.type(exponent).dtype)) return OneOutput(IntegerPower(node, node.input(0), exponent));
    if (AreKnown(node.KnownTensor(exponent), DType::kInt64)) {
      return OneOutput(IntegerPower(node, node.input(0), node.CastTo(exponent, DType::kInt64)));
    }
  }
  const DType computed = PowerType(node);
  const Value base = node.CastTo(node.input(0), computed);
  return OneOutput(node.CastTo(node("pow", {base, node.CastTo(exponent, computed)}), dtype));
}

// Mod of integers: the remainder has the sign of the divisor, or with fmod that of the dividend.
Values Mod(OnnxNode& node) {
  const bool fmod = node.Flag("fmod");
  if (!IsInteger(node.input_type(0).dtype)) return Unimplemented("floating-point remainders");
  return OneOutput(node(fmod ? "rem" : "mod", node.inputs()));
}

Values Cast(OnnxNode& node) {
  node.Ignore({"saturate", "round_mode"});  // of 8-bit types
  return OneOutput(node.CastTo(node.input(0), node.DTypeAttribute("to")));
}

Values CastLike(OnnxNode& node) {
  node.Ignore({"saturate", "round_mode"});
  return OneOutput(node.CastTo(node.input(0), node.input_type(1).dtype));
}

Values BitwiseNot(OnnxNode& node) {
  return OneOutput(node("bit_xor", {node.input(0), node.Number(node.input(0), -1)}));
}

Values BitShift(OnnxNode& node) {
  const std::string direction = node.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return InvalidArgument("direction is ", direction, "; expected LEFT or RIGHT");
  }
  if (direction == "LEFT") return OneOutput(node("shift_left", node.inputs()));
  const Value x = node.input(0);
  if (IsUnsigned(node.type(x).dtype)) return OneOutput(node("shift_right", node.inputs()));
  // An arithmetic shift brings in copies of the sign: the bits of a negative number are inverted before and after it.
  const Value turned = node("where", {node("less", {x, node.Number(x, 0)}), node.Number(x, -1), node.Number(x, 0)});
  return OneOutput(node("bit_xor", {node("shift_right", {node("bit_xor", {x, turned}), node.input(1)}), turned}));
}

// Reads the bounds of Clip as numbers if they are known.
struct Bound {
  std::optional<double> number;
  std::optional<Value> value;
  bool exists() const { return number || value; }
};

absl::StatusOr<Bound> ReadBound(OnnxNode& node, const std::string& attribute, int input) {
  Bound bound;
  if (node.opset() < 11) {
    if (node.HasAttribute(attribute)) bound.number = node.Float(attribute);
    return bound;
  }
  if (!node.has_input(input)) return bound;
  bound.value = node.input(input);
  if (node.type(*bound.value).num_elements() != 1) {
    return InvalidArgument("bound ", attribute, " is ", node.type(*bound.value).ToString(), "; expected one number");
  }
  const Tensor* known = node.KnownTensor(*bound.value);
  if (known != nullptr && IsFloating(known->dtype())) bound.number = known->At(0);
  return bound;
}

Values Clip(OnnxNode& node) {
  const Value x = node.input(0);
  ASSIGN_OR_RETURN(const Bound min, ReadBound(node, "min", 1));
  ASSIGN_OR_RETURN(const Bound max, ReadBound(node, "max", 2));
  if (min.number && max.number && *min.number <= *max.number) {
    return OneOutput(node("clip", {x}, {{"min", *min.number}, {"max", *max.number}}));
  }
  if (min.number && *min.number == 0 && !max.exists()) return OneOutput(node("relu", {x}));
  const auto operand = [&](const Bound& bound) {
    return bound.number ? node.Number(x, *bound.number) : node.Reshape(*bound.value, {});
  };
  Value result = x;
  if (min.exists()) result = node("max", {result, operand(min)});
  if (max.exists()) result = node("min", {result, operand(max)});
  return OneOutput(result);
}

Values IsNaN(OnnxNode& node) { return OneOutput(node("logical_not", {node("equal", {node.input(0), node.input(0)})})); }

Values IsInf(OnnxNode& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool positive = node.Flag("detect_positive", true), negative = node.Flag("detect_negative", true);
  const Value x = node.input(0);
  if (!positive && !negative) return OneOutput(node("less", {x, node.Number(x, -kInfinity)}));
  const Value tested = !positive ? node("neg", {x}) : !negative ? x : node("abs", {x});
  return OneOutput(node("equal", {tested, node.Number(x, kInfinity)}));
}

// Applies the operator of a row of functions.cc.
Values Function(OnnxNode& node) {
  Attrs attrs;
  for (const OnnxFunction& f : OnnxFunctions()) {
    if (f.op != node.op()) continue;
    for (const auto& [name, otherwise] : f.attrs) attrs.emplace(name, node.Float(name, otherwise));
  }
  return OneOutput(node(node.op(), node.inputs(), attrs));
}

// ---------------------------------------------------------------- activations; those without an operator are written
// out

Values Gelu(OnnxNode& node) {
  const std::string approximate = node.String("approximate", "none");
  if (approximate == "none") return OneOutput(node("gelu", {node.input(0)}));
  if (approximate == "tanh") return OneOutput(node("gelu_tanh", {node.input(0)}));
  return InvalidArgument("attribute approximate is \"", approximate, "\"");
}

// min(max(alpha*x + beta, 0), 1)
Values HardSigmoid(OnnxNode& node) {
  const double alpha = node.Float("alpha", 0.2f);
  const double beta = node.Float("beta", 0.5f);
  const Value x = node.input(0);
  // 1/6 is not exact in any type; exporters write the nearest number for it, and mean hard_swish.
  const bool sixth = alpha == static_cast<double>(1.0f / 6);
  const Value scaled = sixth ? node("div", {x, node.Number(x, 6)}) : node("mul", {x, node.Number(x, alpha)});
  return OneOutput(node("clip", {node("add", {scaled, node.Number(x, beta)})}, {{"min", 0.0}, {"max", 1.0}}));
}

Values Selu(OnnxNode& node) {
  const double alpha = node.Float("alpha", 1.67326319217681884765625);
  const double gamma = node.Float("gamma", 1.05070102214813232421875);
  const Value x = node.input(0);
  return OneOutput(node("mul", {node("elu", {x}, {{"alpha", alpha}}), node.Number(x, gamma)}));
}

// elu(x / alpha) * alpha, whose positive side is x.
Values Celu(OnnxNode& node) {
  const double alpha = node.Float("alpha", 1);
  const Value x = node.input(0);
  if (alpha == 1) return OneOutput(node("elu", {x}));
  const Value negative = node("elu", {node("div", {x, node.Number(x, alpha)})}, {{"alpha", alpha}});
  return OneOutput(node("where", {node("less", {node.Number(x, 0), x}), x, negative}));
}

Values PRelu(OnnxNode& node) {
  const Value x = node.input(0), zero = node.Number(x, 0), scaled = node("mul", {x, node.input(1)});
  // The gradient at 0 is PyTorch's, the slope; its value there may be -0.
  if (node.differentiated()) return OneOutput(node("where", {node("less", {zero, x}), x, scaled}));
  return OneOutput(node("where", {node("less", {x, zero}), scaled, x}));
}

Values Softsign(OnnxNode& node) {
  const Value x = node.input(0);
  return OneOutput(node("div", {x, node("add", {node("abs", {x}), node.Number(x, 1)})}));
}

// x * sigmoid(alpha * x)
Value SwishOf(OnnxNode& node) {
  const double alpha = node.Float("alpha", 1);
  const Value x = node.input(0);
  return alpha == 1 ? node("swish", {x}) : node("mul", {x, node("sigmoid", {node("mul", {x, node.Number(x, alpha)})})});
}

Values Swish(OnnxNode& node) { return OneOutput(SwishOf(node)); }

Values SwiGlu(OnnxNode& node) { return OneOutput(node("mul", {SwishOf(node), node.input(1)})); }

Values ThresholdedRelu(OnnxNode& node) {
  const double alpha = node.Float("alpha", 1);
  const Value x = node.input(0);
  return OneOutput(node("where", {node("less", {node.Number(x, alpha), x}), x, node.Number(x, 0)}));
}

// x < -lambd ? x + bias : x > lambd ? x - bias : 0
Values Shrink(OnnxNode& node) {
  const double lambd = node.Float("lambd", 0.5);
  const double bias = node.Float("bias", 0);
  const Value x = node.input(0);
  const Value above = node(
      "where", {node("less", {node.Number(x, lambd), x}), node("sub", {x, node.Number(x, bias)}), node.Number(x, 0)});
  return OneOutput(
      node("where", {node("less", {x, node.Number(x, -lambd)}), node("add", {x, node.Number(x, bias)}), above}));
}

}  // namespace

OnnxOperatorList ElementwiseOperators() {
  OnnxOperatorList list = {
      {"Pow", {7, 15, 2, 2, Pow}},
      {"Mod", {10, 28, 2, 2, Mod}},
      {"Min", {6, 13, 1, -1, Variadic, "min"}},
      {"Max", {6, 13, 1, -1, Variadic, "max"}},
      {"Sum", {6, 13, 1, -1, Variadic, "add"}},
      {"Mean", {6, 13, 1, -1, Mean}},
      {"Greater", {7, 13, 2, 2, Exchanged, "less"}},
      {"GreaterOrEqual", {12, 16, 2, 2, Exchanged, "less_equal"}},
      {"BitwiseNot", {18, 18, 1, 1, BitwiseNot}},
      {"BitShift", {11, 28, 2, 2, BitShift}},
      {"Cast", {6, 28, 1, 1, Cast}},
      {"CastLike", {15, 25, 2, 2, CastLike}},
      {"Clip", {6, 13, 1, 3, Clip}},
      {"IsNaN", {9, 20, 1, 1, IsNaN}},
      {"IsInf", {10, 20, 1, 1, IsInf}},
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
  for (const OnnxFunction& f : OnnxFunctions()) {
    list.push_back({f.op_type, {f.first_opset, f.newest_version, f.operands, f.operands, Function, f.op}});
  }
  return list;
}

}  // namespace rewright
