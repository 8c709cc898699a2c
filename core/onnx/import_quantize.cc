// Operators on quantized tensors: integers of 8 or 16 bits q that stand for (q - zero point) * scale. They are composed
// of operators on integers and f32, so that nothing is rounded but where ONNX says so: products are sums of i32, halves
// are rounded to the even one, and what is too large for the type is its largest number.
#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"
#include "core/onnx/quantized.h"
#include "core/onnx/tensor_proto.h"

namespace rewright {

absl::StatusOr<Value> Beside(OnnxNode& node, Value x, Value parameter, int64_t axis, int64_t block) {
  const Shape shape = node.shape(x), given = node.shape(parameter);
  if (NumElements(given) == 1 && given.size() <= 1) return node.Reshape(parameter, {});
  ASSIGN_OR_RETURN(axis, OnnxNode::Axis(axis, static_cast<int>(shape.size())));
  if (block > 0) {
    if (given.size() != shape.size()) return node.Invalid("a blocked parameter has not the rank of the operand");
    std::vector<int64_t> repeats(shape.size(), 1);
    repeats[axis] = block;
    ASSIGN_OR_RETURN(const Value repeated, Repeat(node, parameter, repeats, /*inner=*/true));
    return node.SliceAxis(repeated, axis, 0, shape[axis]);
  }
  if (given != Shape{shape[axis]}) {
    return node.Invalid(
        absl::StrCat("a parameter is ", ShapeString(given), "; expected a number or shape [", shape[axis], "]"));
  }
  Shape along(shape.size(), 1);
  along[axis] = shape[axis];
  return node.Reshape(parameter, along);
}

absl::StatusOr<Value> Centred(OnnxNode& node, Value x, int zero, int64_t axis, int64_t block) {
  const Value operand = x;
  ASSIGN_OR_RETURN(x, node.CastTo(x, DType::kInt32));
  if (!node.has_input(zero)) return x;
  ASSIGN_OR_RETURN(Value point, Beside(node, operand, node.input(zero), axis, block));
  ASSIGN_OR_RETURN(point, node.CastTo(point, DType::kInt32));
  return node.Apply("sub", {x, point});
}

absl::StatusOr<Value> Quantized(OnnxNode& node, Value x, std::optional<Value> zero, DType to) {
  double low = 0, high = 0;
  VisitDType(to, [&](auto t) {
    using T = typename decltype(t)::Type;
    if constexpr (std::is_integral_v<T>) {
      low = static_cast<double>(std::numeric_limits<T>::min());
      high = static_cast<double>(std::numeric_limits<T>::max());
    }
  });
  ASSIGN_OR_RETURN(x, node.CastTo(x, DType::kFloat32));
  ASSIGN_OR_RETURN(x, node.Apply("round", {x}));
  if (zero) {
    ASSIGN_OR_RETURN(const Value point, node.CastTo(*zero, DType::kFloat32));
    ASSIGN_OR_RETURN(x, node.Apply("add", {x, point}));
  }
  ASSIGN_OR_RETURN(x, node.Apply("clip", {x}, {{"min", low}, {"max", high}}));
  return node.CastTo(x, to);
}

absl::Status CheckQuantized(const OnnxNode& node, DType type) {
  if (IsInteger(type) && BitsOf(type) <= 16) return absl::OkStatus();
  return node.Unsupported(absl::StrCat("quantized elements of type ", DTypeName(type)));
}

absl::StatusOr<std::vector<Value>> DynamicallyQuantized(OnnxNode& node, Value x) {
  std::vector<int64_t> axes(node.shape(x).size());
  std::iota(axes.begin(), axes.end(), 0);
  Formula f(node);
  const Value nothing = f.Number(x, 0);
  const Value high = f("max", {f("reduce_max", {x}, {{"axes", axes}, {"keepdims", int64_t{0}}}), nothing});
  const Value low = f("min", {f("reduce_min", {x}, {{"axes", axes}, {"keepdims", int64_t{0}}}), nothing});
  const Value range = f("sub", {high, low});
  const Value is_zero = f("equal", {range, nothing});
  const Value scale = f("where", {is_zero, f.Number(x, 1), f("div", {range, f.Number(x, 255)})});
  const Value point =
      f("round", {f("clip", {f("div", {f("sub", {nothing, low}), scale})}, {{"min", 0.0}, {"max", 255.0}})});
  ASSIGN_OR_RETURN(const Value zero, f.Done(f("cast", {point}, {{"to", DType::kUInt8}})));
  ASSIGN_OR_RETURN(const Value y, Quantized(node, f("div", {x, scale}), zero, DType::kUInt8));
  return std::vector<Value>{y, scale, zero};
}

namespace {

using Values = absl::StatusOr<std::vector<Value>>;

struct Layout {
  int64_t axis = 1;
  int64_t block = 0;
};

absl::StatusOr<Layout> LayoutOf(OnnxNode& node) {
  Layout layout;
  ASSIGN_OR_RETURN(layout.axis, node.Int("axis", 1));
  ASSIGN_OR_RETURN(layout.block, node.Int("block_size", 0));
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("block_size", {layout.block}));
  return layout;
}

Values QuantizeLinear(OnnxNode& node) {
  node.Ignore({"saturate"});  // of 8-bit floats
  const Value x = node.input(0);
  ASSIGN_OR_RETURN(const Layout layout, LayoutOf(node));
  ASSIGN_OR_RETURN(const int64_t output_type, node.Int("output_dtype", 0));
  ASSIGN_OR_RETURN(const int64_t precision, node.Int("precision", 0));
  DType to = node.has_input(2) ? node.input_type(2).dtype : DType::kUInt8;
  if (output_type != 0) {
    ASSIGN_OR_RETURN(to, DTypeFromOnnx(output_type));
  }
  RETURN_IF_ERROR(CheckQuantized(node, to));
  DType computed = node.input_type(1).dtype;
  if (precision != 0) {
    ASSIGN_OR_RETURN(computed, DTypeFromOnnx(precision));
  }
  ASSIGN_OR_RETURN(Value scale, Beside(node, x, node.input(1), layout.axis, layout.block));
  ASSIGN_OR_RETURN(scale, node.CastTo(scale, computed));
  ASSIGN_OR_RETURN(const Value real, node.CastTo(x, computed));
  ASSIGN_OR_RETURN(const Value multiple, node.Apply("div", {real, scale}));
  std::optional<Value> zero;
  if (node.has_input(2)) {
    ASSIGN_OR_RETURN(zero, Beside(node, x, node.input(2), layout.axis, layout.block));
  }
  return OneOutput(Quantized(node, multiple, zero, to));
}

Values DequantizeLinear(OnnxNode& node) {
  const Value x = node.input(0);
  const DType from = node.type(x).dtype;
  if (from != DType::kInt32) RETURN_IF_ERROR(CheckQuantized(node, from));
  ASSIGN_OR_RETURN(const Layout layout, LayoutOf(node));
  ASSIGN_OR_RETURN(const int64_t output_type, node.Int("output_dtype", 0));
  DType to = node.input_type(1).dtype;
  if (output_type != 0) {
    ASSIGN_OR_RETURN(to, DTypeFromOnnx(output_type));
  }
  ASSIGN_OR_RETURN(Value real, Centred(node, x, 2, layout.axis, layout.block));
  ASSIGN_OR_RETURN(real, node.CastTo(real, DType::kFloat32));
  ASSIGN_OR_RETURN(Value scale, Beside(node, x, node.input(1), layout.axis, layout.block));
  ASSIGN_OR_RETURN(scale, node.CastTo(scale, DType::kFloat32));
  ASSIGN_OR_RETURN(real, node.Apply("mul", {real, scale}));
  return OneOutput(node.CastTo(real, to));
}

// Rows of the left operand and columns of the right one may have zero points of their own.
constexpr int64_t kRows = -2, kColumns = -1, kChannels = 1, kKernels = 0;

absl::StatusOr<Value> IntegerProduct(OnnxNode& node, int b, int a_zero, int b_zero) {
  ASSIGN_OR_RETURN(const Value left, Centred(node, node.input(0), a_zero, kRows));
  ASSIGN_OR_RETURN(const Value right, Centred(node, node.input(b), b_zero, kColumns));
  return Product(node, left, right);
}

Values DynamicQuantizeLinear(OnnxNode& node) { return DynamicallyQuantized(node, node.input(0)); }

Values MatMulInteger(OnnxNode& node) { return OneOutput(IntegerProduct(node, 1, 2, 3)); }

Values ConvInteger(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Value x, Centred(node, node.input(0), 2, kChannels));
  ASSIGN_OR_RETURN(const Value w, Centred(node, node.input(1), 3, kKernels));
  return OneOutput(Convolve(node, x, w));
}

// The sums of products with the scale left * right, as multiples of the scale `out`, in the type of its zero point.
// `along`: the axis of the sums that the parameters of the right operand count; all inputs by number.
absl::StatusOr<Value> Requantized(OnnxNode& node, Value sums, int left, int right, int out, int64_t along) {
  const Value zero = node.input(out + 1);
  RETURN_IF_ERROR(CheckQuantized(node, node.type(zero).dtype));
  ASSIGN_OR_RETURN(const Value left_scale, Beside(node, sums, node.input(left), -2, 0));
  ASSIGN_OR_RETURN(const Value right_scale, Beside(node, sums, node.input(right), along, 0));
  ASSIGN_OR_RETURN(const Value out_scale, Beside(node, sums, node.input(out), -2, 0));
  ASSIGN_OR_RETURN(const Value point, Beside(node, sums, zero, -2, 0));
  Formula f(node);
  const auto real = [&](Value x) { return f("cast", {x}, {{"to", DType::kFloat32}}); };
  const Value factor = f("div", {f("mul", {real(left_scale), real(right_scale)}), real(out_scale)});
  ASSIGN_OR_RETURN(const Value multiple, f.Done(f("mul", {real(sums), factor})));
  return Quantized(node, multiple, point, node.type(zero).dtype);
}

// Inputs: a, its scale and zero point, b, its scale and zero point, those of the result.
Values QLinearMatMul(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Value sums, IntegerProduct(node, 3, 2, 5));
  return OneOutput(Requantized(node, sums, 1, 4, 6, -1));
}

// Inputs: x, its scale and zero point, w, its scale and zero point, those of the result, a bias of i32.
Values QLinearConv(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Value x, Centred(node, node.input(0), 2, kChannels));
  ASSIGN_OR_RETURN(const Value w, Centred(node, node.input(3), 5, kKernels));
  ASSIGN_OR_RETURN(Value sums, Convolve(node, x, w));
  if (node.has_input(8)) {
    ASSIGN_OR_RETURN(const Value bias, Beside(node, sums, node.input(8), 1, 0));
    ASSIGN_OR_RETURN(sums, node.Apply("add", {sums, bias}));
  }
  return OneOutput(Requantized(node, sums, 1, 4, 6, 1));
}

}  // namespace

OnnxOperatorList QuantizedOperators() {
  return {
      {"QuantizeLinear", {10, 28, 2, 3, QuantizeLinear}},
      {"DequantizeLinear", {10, 28, 2, 3, DequantizeLinear}},
      {"com.microsoft.QuantizeLinear", {1, 1, 2, 3, QuantizeLinear}},
      {"com.microsoft.DequantizeLinear", {1, 1, 2, 3, DequantizeLinear}},
      {"DynamicQuantizeLinear", {11, 11, 1, 1, DynamicQuantizeLinear}},
      {"MatMulInteger", {10, 10, 2, 4, MatMulInteger}},
      {"ConvInteger", {10, 10, 2, 4, ConvInteger}},
      {"QLinearMatMul", {10, 21, 8, 8, QLinearMatMul}},
      {"QLinearConv", {10, 10, 8, 9, QLinearConv}},
  };
}

}  // namespace rewright
