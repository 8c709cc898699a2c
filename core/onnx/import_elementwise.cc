// Elementwise operators: arithmetic, comparisons, choices.
#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"
#include "core/onnx/tensor_proto.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// The operator of the table's entry on the inputs as they are.
Values Same(OnnxNode& node) { return OneOutput(node.Apply(node.op(), node.inputs())); }

// With the operands exchanged: a > b is b < a.
Values Exchanged(OnnxNode& node) { return OneOutput(node.Apply(node.op(), {node.input(1), node.input(0)})); }

// Min, Max, Sum of any number of inputs, from the left.
absl::StatusOr<Value> FoldInputs(OnnxNode& node, const std::string& op) {
  const std::vector<Value> inputs = node.inputs();
  Value result = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(result, node.Apply(op, {result, inputs[i]}));
  }
  return result;
}

Values Variadic(OnnxNode& node) { return OneOutput(FoldInputs(node, node.op())); }

Values Mean(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Value sum, FoldInputs(node, "add"));
  const double count = static_cast<double>(node.inputs().size());
  if (count == 1) return std::vector<Value>{sum};
  return OneOutput(node.Apply("div", {sum, node.Number(node.type(sum).dtype, count)}));
}

// The exponent may be of another type; the result has the type of the base.
Values Pow(OnnxNode& node) {
  const DType dtype = node.input_type(0).dtype;
  const DType computed = IsFloating(dtype) ? dtype : DType::kFloat64;
  ASSIGN_OR_RETURN(const Value base, node.CastTo(node.input(0), computed));
  ASSIGN_OR_RETURN(const Value exponent, node.CastTo(node.input(1), computed));
  ASSIGN_OR_RETURN(const Value power, node.Apply("pow", {base, exponent}));
  return OneOutput(node.CastTo(power, dtype));
}

// Integers: the rest has the sign of the divisor, or with fmod that of the dividend.
Values Mod(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t fmod, node.Int("fmod", 0));
  const Value a = node.input(0);
  const Value b = node.input(1);
  if (!IsInteger(node.type(a).dtype)) return node.Unsupported("floating-point remainders");
  return OneOutput(node.Apply(fmod != 0 ? "rem" : "mod", {a, b}));
}

Values Cast(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t to, node.Int("to", std::nullopt));
  node.Ignore({"saturate", "round_mode"});  // of 8-bit types
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(to));
  return OneOutput(node.CastTo(node.input(0), dtype));
}

Values CastLike(OnnxNode& node) {
  node.Ignore({"saturate", "round_mode"});
  return OneOutput(node.CastTo(node.input(0), node.input_type(1).dtype));
}

Values BitwiseNot(OnnxNode& node) {
  Formula f(node);
  return f.Output(f("bit_xor", {node.input(0), f.Number(node.input(0), -1)}));
}

Values BitShift(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::string direction, node.String("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT") {
    return node.Invalid(absl::StrCat("direction is ", direction, "; expected LEFT or RIGHT"));
  }
  if (direction == "LEFT") return OneOutput(node.Apply("shift_left", node.inputs()));
  const Value x = node.input(0);
  if (IsUnsigned(node.type(x).dtype)) return OneOutput(node.Apply("shift_right", node.inputs()));
  // Copies of the sign come in: the bits of a negative number are turned around before and behind.
  Formula f(node);
  const Value turned = f("where", {f("less", {x, f.Number(x, 0)}), f.Number(x, -1), f.Number(x, 0)});
  return f.Output(f("bit_xor", {f("shift_right", {f("bit_xor", {x, turned}), node.input(1)}), turned}));
}

// Bounds of Clip: numbers when they are known.
struct Bound {
  std::optional<double> number;
  std::optional<Value> value;
  bool exists() const { return number || value; }
};

absl::StatusOr<Bound> ReadBound(OnnxNode& node, const std::string& attribute, int input) {
  Bound bound;
  if (node.opset() < 11) {
    if (node.HasAttribute(attribute)) {
      ASSIGN_OR_RETURN(bound.number, node.Float(attribute, std::nullopt));
    }
    return bound;
  }
  if (!node.has_input(input)) return bound;
  bound.value = node.input(input);
  if (node.type(*bound.value).num_elements() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("bound ", attribute, " is ", node.type(*bound.value).ToString(), "; expected one number"));
  }
  const Tensor* known = node.KnownTensor(*bound.value);
  if (known != nullptr && IsFloating(known->dtype())) bound.number = known->At(0);
  return bound;
}

Values Clip(OnnxNode& node) {
  const Value x = node.input(0);
  const DType dtype = node.type(x).dtype;
  ASSIGN_OR_RETURN(const Bound min, ReadBound(node, "min", 1));
  ASSIGN_OR_RETURN(const Bound max, ReadBound(node, "max", 2));
  if (min.number && max.number && *min.number <= *max.number) {
    return OneOutput(node.Apply("clip", {x}, {{"min", *min.number}, {"max", *max.number}}));
  }
  if (min.number && *min.number == 0 && !max.exists()) return OneOutput(node.Apply("relu", {x}));
  const auto operand = [&](const Bound& bound) -> absl::StatusOr<Value> {
    if (bound.number) return node.Number(dtype, *bound.number);
    return node.Reshape(*bound.value, {});
  };
  Value result = x;
  if (min.exists()) {
    ASSIGN_OR_RETURN(const Value bound, operand(min));
    ASSIGN_OR_RETURN(result, node.Apply("max", {result, bound}));
  }
  if (max.exists()) {
    ASSIGN_OR_RETURN(const Value bound, operand(max));
    ASSIGN_OR_RETURN(result, node.Apply("min", {result, bound}));
  }
  return std::vector<Value>{result};
}

Values IsNaN(OnnxNode& node) {
  Formula f(node);
  return f.Output(f("logical_not", {f("equal", {node.input(0), node.input(0)})}));
}

Values IsInf(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t positive, node.Int("detect_positive", 1));
  ASSIGN_OR_RETURN(const int64_t negative, node.Int("detect_negative", 1));
  const Value x = node.input(0);
  Formula f(node);
  const Value infinity = f.Number(x, std::numeric_limits<double>::infinity());
  if (positive == 0 && negative == 0) {
    return f.Output(f("less", {x, f.Number(x, -std::numeric_limits<double>::infinity())}));
  }
  const Value tested = positive == 0 ? f("neg", {x}) : negative == 0 ? x : f("abs", {x});
  return f.Output(f("equal", {tested, infinity}));
}

// The operator of a row of functions.cc.
Values Function(OnnxNode& node) {
  Attrs attrs;
  for (const OnnxFunction& f : OnnxFunctions()) {
    if (f.op != node.op()) continue;
    for (const auto& [name, otherwise] : f.attrs) {
      ASSIGN_OR_RETURN(const double value, node.Float(name, otherwise));
      attrs.emplace(name, value);
    }
  }
  return OneOutput(node.Apply(node.op(), node.inputs(), attrs));
}

}  // namespace

OnnxOperatorList ElementwiseOperators() {
  OnnxOperatorList list = {
      {"Add", {7, 14, 2, 2, Same, "add"}},
      {"Sub", {7, 14, 2, 2, Same, "sub"}},
      {"Mul", {7, 14, 2, 2, Same, "mul"}},
      {"Div", {7, 14, 2, 2, Same, "div"}},
      {"Pow", {7, 15, 2, 2, Pow}},
      {"Mod", {10, 28, 2, 2, Mod}},
      {"Min", {6, 13, 1, -1, Variadic, "min"}},
      {"Max", {6, 13, 1, -1, Variadic, "max"}},
      {"Sum", {6, 13, 1, -1, Variadic, "add"}},
      {"Mean", {6, 13, 1, -1, Mean}},
      {"Equal", {7, 19, 2, 2, Same, "equal"}},
      {"Less", {7, 13, 2, 2, Same, "less"}},
      {"LessOrEqual", {12, 16, 2, 2, Same, "less_equal"}},
      {"Greater", {7, 13, 2, 2, Exchanged, "less"}},
      {"GreaterOrEqual", {12, 16, 2, 2, Exchanged, "less_equal"}},
      {"And", {7, 7, 2, 2, Same, "logical_and"}},
      {"Or", {7, 7, 2, 2, Same, "logical_or"}},
      {"Xor", {7, 7, 2, 2, Same, "logical_xor"}},
      {"BitwiseAnd", {18, 18, 2, 2, Same, "bit_and"}},
      {"BitwiseOr", {18, 18, 2, 2, Same, "bit_or"}},
      {"BitwiseXor", {18, 18, 2, 2, Same, "bit_xor"}},
      {"BitwiseNot", {18, 18, 1, 1, BitwiseNot}},
      {"BitShift", {11, 28, 2, 2, BitShift}},
      {"Where", {9, 16, 3, 3, Same, "where"}},
      {"Cast", {6, 28, 1, 1, Cast}},
      {"CastLike", {15, 25, 2, 2, CastLike}},
      {"Clip", {6, 13, 1, 3, Clip}},
      {"IsNaN", {9, 20, 1, 1, IsNaN}},
      {"IsInf", {10, 20, 1, 1, IsInf}},
  };
  for (const OnnxFunction& f : OnnxFunctions()) {
    list.push_back({f.op_type, {f.first_opset, f.newest_version, 1, 1, Function, f.op}});
  }
  return list;
}

}  // namespace rewright
