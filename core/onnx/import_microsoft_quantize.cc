// Operators on quantized tensors of the domain com.microsoft, as onnxruntime's quantizer writes them: composed as those
// of ONNX are (import_quantize.cc), with the roundings of onnxruntime's kernels on processors, which tests compare bit
// by bit. Where these do not compute by a formula (the softmax by a table of integers), the difference stands beside
// it.
#include <functional>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"
#include "core/onnx/quantized.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// A scale and a zero point for all of a tensor, inputs `at` and `at + 1` of the node, as f32; the zero point may be
// left away.
struct Parameters {
  Value scale, zero;
  std::optional<Value> point;  // as it is given
};

absl::StatusOr<Value> AsNumber(OnnxNode& node, Value x) {
  if (node.type(x).num_elements() != 1) {
    return node.Unsupported(absl::StrCat("a scale or zero point ", node.type(x).ToString(), "; a number is"));
  }
  ASSIGN_OR_RETURN(x, node.Reshape(x, {}));
  return node.CastTo(x, DType::kFloat32);
}

absl::StatusOr<Parameters> ParametersAt(OnnxNode& node, int at) {
  RETURN_IF_ERROR(node.CheckGiven({at}));
  Parameters read;
  ASSIGN_OR_RETURN(read.scale, AsNumber(node, node.input(at)));
  read.zero = node.Number(DType::kFloat32, 0);
  if (node.has_input(at + 1)) {
    ASSIGN_OR_RETURN(read.zero, AsNumber(node, node.input(at + 1)));
    ASSIGN_OR_RETURN(read.point, node.Reshape(node.input(at + 1), {}));
  }
  return read;
}

// scale * (x - zero), of f32.
absl::StatusOr<Value> Real(OnnxNode& node, Value x, const Parameters& p) {
  RETURN_IF_ERROR(CheckQuantized(node, node.type(x).dtype));
  ASSIGN_OR_RETURN(x, node.CastTo(x, DType::kFloat32));
  Formula f(node);
  return f.Done(f("mul", {p.scale, f("sub", {x, p.zero})}));
}

// Reals of f32 as integers of the type.
Values Integers(OnnxNode& node, Value real, const Parameters& p, DType to) {
  ASSIGN_OR_RETURN(const Value multiple, node.Apply("div", {real, p.scale}));
  return OneOutput(Quantized(node, multiple, p.point, to));
}

// Two operands as f32, their parameters, those of the result, and the type of all three. Inputs: a, its scale and zero
// point, b, its scale and zero point, those of the result.
struct Operands {
  Value x, y;
  Parameters a, b, c;
  DType type;
};

absl::StatusOr<Operands> OperandsOf(OnnxNode& node) {
  RETURN_IF_ERROR(node.CheckGiven({0, 3}));
  Operands read;
  ASSIGN_OR_RETURN(read.a, ParametersAt(node, 1));
  ASSIGN_OR_RETURN(read.b, ParametersAt(node, 4));
  ASSIGN_OR_RETURN(read.c, ParametersAt(node, 6));
  read.type = node.input_type(0).dtype;
  RETURN_IF_ERROR(CheckQuantized(node, read.type));
  ASSIGN_OR_RETURN(read.x, node.CastTo(node.input(0), DType::kFloat32));
  ASSIGN_OR_RETURN(read.y, node.CastTo(node.input(3), DType::kFloat32));
  return read;
}

// With the ratios r = scale / scale of the result: (a * r_a + fixed) + b * r_b, where fixed = zero - (r_a * zero_a +
// r_b * zero_b). On processors with fused multiplications and additions onnxruntime's kernel is a * r_a + (b * r_b +
// fixed) with one rounding each for product and sum, in fixed too; few elements are another integer then.
Values QLinearAdd(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Operands of, OperandsOf(node));
  const auto& [x, y, a, b, c, type] = of;
  Formula f(node);
  const Value by_a = f("div", {a.scale, c.scale}), by_b = f("div", {b.scale, c.scale});
  const Value fixed = f("sub", {c.zero, f("add", {f("mul", {by_a, a.zero}), f("mul", {by_b, b.zero})})});
  ASSIGN_OR_RETURN(const Value sum, f.Done(f("add", {f("add", {f("mul", {x, by_a}), fixed}), f("mul", {y, by_b})})));
  return OneOutput(Quantized(node, sum, std::nullopt, type));
}

// ((a - zero) * (b - zero)) * (scale_a * scale_b / scale).
Values QLinearMul(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Operands of, OperandsOf(node));
  const auto& [x, y, a, b, c, type] = of;
  Formula f(node);
  const Value product = f("mul", {f("sub", {x, a.zero}), f("sub", {y, b.zero})});
  const Value ratio = f("div", {f("mul", {a.scale, b.scale}), c.scale});
  ASSIGN_OR_RETURN(const Value multiple, f.Done(f("mul", {product, ratio})));
  return OneOutput(Quantized(node, multiple, c.point, type));
}

// A function of reals between two quantized tensors. Inputs: x, its scale and zero point, those of the result.
Values Between(OnnxNode& node, const std::function<Value(Formula&, Value)>& function) {
  ASSIGN_OR_RETURN(const Parameters of_x, ParametersAt(node, 1));
  ASSIGN_OR_RETURN(const Parameters of_y, ParametersAt(node, 3));
  ASSIGN_OR_RETURN(const Value real, Real(node, node.input(0), of_x));
  Formula f(node);
  ASSIGN_OR_RETURN(const Value y, f.Done(function(f, real)));
  return Integers(node, y, of_y, node.input_type(0).dtype);
}

Values QLinearSigmoid(OnnxNode& node) {
  return Between(node, [](Formula& f, Value x) { return f("sigmoid", {x}); });
}

Values QLinearLeakyRelu(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 0.01f));
  return Between(node, [&](Formula& f, Value x) { return f("leaky_relu", {x}, {{"alpha", alpha}}); });
}

// By a table of exponentials in onnxruntime; a unit apart where that and the quotient fall on two sides of a half.
Values QLinearSoftmax(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t opset, node.Int("opset", 13));
  const int rank = node.input_rank(0);
  ASSIGN_OR_RETURN(const int64_t at, OnnxNode::Axis(axis, rank));
  if (opset < 13 && at != rank - 1) return node.Unsupported("several axes as one (opset < 13)");
  return Between(node, [&](Formula& f, Value x) { return f("softmax", {x}, {{"axis", at}}); });
}

absl::Status CheckChannelsFirst(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t last, node.Int("channels_last", 0));
  return last == 0 ? absl::OkStatus() : node.Unsupported("channels_last = 1");
}

Values QLinearAveragePool(OnnxNode& node) {
  RETURN_IF_ERROR(CheckChannelsFirst(node));
  ASSIGN_OR_RETURN(const Parameters of_x, ParametersAt(node, 1));
  ASSIGN_OR_RETURN(const Parameters of_y, ParametersAt(node, 3));
  ASSIGN_OR_RETURN(const Value real, Real(node, node.input(0), of_x));
  ASSIGN_OR_RETURN(const Value mean, AveragePoolOf(node, real));
  return Integers(node, mean, of_y, node.input_type(0).dtype);
}

// The sum of x - zero times scale_x / (scale_y * n).
Values QLinearGlobalAveragePool(OnnxNode& node) {
  RETURN_IF_ERROR(CheckChannelsFirst(node));
  ASSIGN_OR_RETURN(const Parameters of_x, ParametersAt(node, 1));
  ASSIGN_OR_RETURN(const Parameters of_y, ParametersAt(node, 3));
  const TensorType type = node.input_type(0);
  RETURN_IF_ERROR(CheckQuantized(node, type.dtype));
  if (type.rank() < 3) return node.Invalid(absl::StrCat("operand ", type.ToString(), "; expected [n, c, spatial..]"));
  std::vector<int64_t> axes;
  int64_t count = 1;
  for (int axis = 2; axis < type.rank(); ++axis) {
    axes.push_back(axis);
    count *= type.shape[axis];
  }
  ASSIGN_OR_RETURN(const Value x, node.CastTo(node.input(0), DType::kInt32));
  ASSIGN_OR_RETURN(const Value zero, node.CastTo(of_x.zero, DType::kInt32));
  Formula f(node);
  const Value sum = f("reduce_sum", {f("sub", {x, zero})}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const Value over = f("mul", {of_y.scale, f.Number(of_y.scale, static_cast<double>(count))});
  ASSIGN_OR_RETURN(const Value multiple,
                   f.Done(f("mul", {f("cast", {sum}, {{"to", DType::kFloat32}}), f("div", {of_x.scale, over})})));
  return OneOutput(Quantized(node, multiple, of_y.point, type.dtype));
}

// Inputs: scale and zero point of the result, then each part with its own.
Values QLinearConcat(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.Int("axis", std::nullopt));
  ASSIGN_OR_RETURN(const Parameters to, ParametersAt(node, 0));
  std::vector<Value> parts;
  RETURN_IF_ERROR(node.CheckGiven({2}));
  for (int i = 2; i < node.num_inputs(); i += 3) {
    RETURN_IF_ERROR(node.CheckGiven({i}));
    ASSIGN_OR_RETURN(const Parameters of_part, ParametersAt(node, i + 1));
    ASSIGN_OR_RETURN(const Value real, Real(node, node.input(i), of_part));
    ASSIGN_OR_RETURN(const std::vector<Value> part, Integers(node, real, to, node.input_type(i).dtype));
    parts.push_back(part[0]);
  }
  ASSIGN_OR_RETURN(const int64_t at, OnnxNode::Axis(axis, node.type(parts[0]).rank()));
  return OneOutput(node.Concat(parts, at));
}

// The sums of products of i32; zero points by number of the input, for all of a matrix, its rows or its columns.
absl::StatusOr<Value> Sums(OnnxNode& node, Value a, Value b, int a_zero, int b_zero) {
  ASSIGN_OR_RETURN(const Value left, Centred(node, a, a_zero, -2));
  ASSIGN_OR_RETURN(const Value right, Centred(node, b, b_zero, -1));
  return Product(node, left, right);
}

// Inputs: a, its scale and zero point, b, its scale and zero point, an addend of i32, scale and zero point of the
// result, without which it is of f32.
Values QGemm(OnnxNode& node) {
  RETURN_IF_ERROR(node.CheckGiven({0, 1, 3, 4}));
  ASSIGN_OR_RETURN(const int64_t transpose_a, node.Int("transA", 0));
  ASSIGN_OR_RETURN(const int64_t transpose_b, node.Int("transB", 0));
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1));
  Value a = node.input(0), b = node.input(3);
  if (node.type(a).rank() != 2 || node.type(b).rank() != 2) return node.Invalid("expected two matrices");
  if (transpose_a != 0) {
    ASSIGN_OR_RETURN(a, node.Transpose(a, {1, 0}));
  }
  if (transpose_b != 0) {
    ASSIGN_OR_RETURN(b, node.Transpose(b, {1, 0}));
  }
  ASSIGN_OR_RETURN(Value sums, Sums(node, a, b, 2, 5));
  if (node.has_input(6)) {
    ASSIGN_OR_RETURN(sums, node.Apply("add", {sums, node.input(6)}));
  }
  ASSIGN_OR_RETURN(const Value a_scale, AsNumber(node, node.input(1)));
  ASSIGN_OR_RETURN(const Value b_scale, Beside(node, sums, node.input(4), -1));
  Formula f(node);
  Value factor = f("mul", {f("mul", {f.Number(a_scale, alpha), a_scale}), b_scale});
  ASSIGN_OR_RETURN(const Value real, f.Done(f("cast", {sums}, {{"to", DType::kFloat32}})));
  if (!node.has_input(7)) return f.Output(f("mul", {real, factor}));
  ASSIGN_OR_RETURN(const Parameters to, ParametersAt(node, 7));
  factor = f("div", {factor, to.scale});
  ASSIGN_OR_RETURN(const Value multiple, f.Done(f("mul", {real, factor})));
  return OneOutput(Quantized(node, multiple, to.point, to.point ? node.type(*to.point).dtype : DType::kUInt8));
}

// Integer sums as reals, by the two scales, and a bias of f32, which may be left away.
Values Dequantized(OnnxNode& node, Value sums, Value a_scale, Value b_scale, int bias) {
  Formula f(node);
  const Value factor = f("mul", {a_scale, b_scale});
  Value y = f("mul", {f("cast", {sums}, {{"to", DType::kFloat32}}), factor});
  if (node.has_input(bias)) y = f("add", {y, node.input(bias)});
  return f.Output(y);
}

// Inputs: a, b, their scales, their zero points, a bias of f32.
Values MatMulIntegerToFloat(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Value sums, Sums(node, node.input(0), node.input(1), 4, 5));
  ASSIGN_OR_RETURN(const Value a_scale, AsNumber(node, node.input(2)));
  ASSIGN_OR_RETURN(const Value b_scale, Beside(node, sums, node.input(3), -1));
  return Dequantized(node, sums, a_scale, b_scale, 6);
}

// Inputs: a of f32, which is quantized as DynamicQuantizeLinear says, b, its scale and zero point, a bias of f32.
Values DynamicQuantizeMatMul(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<Value> a, DynamicallyQuantized(node, node.input(0)));
  Formula f(node);
  const auto wide = [&](Value x) { return f("cast", {x}, {{"to", DType::kInt32}}); };
  ASSIGN_OR_RETURN(const Value left, f.Done(f("sub", {wide(a[0]), wide(a[2])})));
  ASSIGN_OR_RETURN(const Value right, Centred(node, node.input(1), 3, -1));
  ASSIGN_OR_RETURN(const Value sums, Product(node, left, right));
  ASSIGN_OR_RETURN(const Value b_scale, Beside(node, sums, node.input(2), -1));
  return Dequantized(node, sums, a[1], b_scale, 4);
}

}  // namespace

OnnxOperatorList MicrosoftQuantizedOperators() {
  return {
      {"com.microsoft.QLinearAdd", {1, 1, 1, 8, QLinearAdd}},
      {"com.microsoft.QLinearMul", {1, 1, 1, 8, QLinearMul}},
      {"com.microsoft.QLinearSigmoid", {1, 1, 1, 5, QLinearSigmoid}},
      {"com.microsoft.QLinearLeakyRelu", {1, 1, 1, 5, QLinearLeakyRelu}},
      {"com.microsoft.QLinearSoftmax", {1, 1, 1, 5, QLinearSoftmax}},
      {"com.microsoft.QLinearAveragePool", {1, 1, 1, 5, QLinearAveragePool}},
      {"com.microsoft.QLinearGlobalAveragePool", {1, 1, 1, 5, QLinearGlobalAveragePool}},
      {"com.microsoft.QLinearConcat", {1, 1, 1, -1, QLinearConcat}},
      {"com.microsoft.QGemm", {1, 1, 1, 9, QGemm}},
      {"com.microsoft.MatMulIntegerToFloat", {1, 1, 4, 7, MatMulIntegerToFloat}},
      {"com.microsoft.DynamicQuantizeMatMul", {1, 1, 3, 5, DynamicQuantizeMatMul}},
  };
}

}  // namespace rewright
