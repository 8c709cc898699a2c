// Operators on quantized tensors: integers q of 8 or 16 bits that represent (q - zero point) * scale. They are composed
// of operators on integers and f32, so that rounding occurs only where ONNX defines it: products are sums of i32,
// halves are rounded to the even number, and too large values become the type's largest number.
#include <functional>
#include <limits>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// Returns a scale or zero point as it broadcasts with x: a number, one for each index of `axis`, or one for each block
// of them.
Value Beside(OnnxNode& node, Value x, Value parameter, int64_t axis, int64_t block = 0) {
  const Shape shape = node.shape(x), given = node.shape(parameter);
  if (NumElements(given) == 1 && given.size() <= 1) return node.Reshape(parameter, {});
  const absl::StatusOr<int64_t> at = OnnxNode::Axis(axis, static_cast<int>(shape.size()));
  if (!at.ok()) return node.Fail(at.status());
  if (block > 0) {
    if (given.size() != shape.size()) {
      return node.Fail(InvalidArgument("a blocked parameter has not the rank of the operand"));
    }
    std::vector<int64_t> repeats(shape.size(), 1);
    repeats[*at] = block;
    return node.SliceAxis(Repeat(node, parameter, repeats, /*inner=*/true), *at, 0, shape[*at]);
  }
  const int64_t size = shape[*at];
  if (given != Shape{size}) {
    return node.Fail(
        InvalidArgument("a parameter is ", ShapeString(given), "; expected a number or shape [", size, "]"));
  }
  Shape along(shape.size(), 1);
  along[*at] = size;
  return node.Reshape(parameter, along);
}

// Returns x - zero point, of i32; the zero point is input number `zero` of the node, which may be omitted.
Value Centred(OnnxNode& node, Value x, int zero, int64_t axis, int64_t block = 0) {
  const Value whole = node.CastTo(x, DType::kInt32);
  if (!node.has_input(zero)) return whole;
  const Value point = Beside(node, x, node.input(zero), axis, block);
  return node("sub", {whole, node.CastTo(point, DType::kInt32)});
}

// Quantizes the reals x, multiples of a scale, to integers of the type: rounded, shifted by the zero point, clamped to
// its range.
Value Quantized(OnnxNode& node, Value x, std::optional<Value> zero, DType to) {
  double low = 0, high = 0;
  VisitDType(to, [&](auto t) {
    using T = typename decltype(t)::Type;
    if constexpr (std::is_integral_v<T>) {
      low = static_cast<double>(std::numeric_limits<T>::min());
      high = static_cast<double>(std::numeric_limits<T>::max());
    }
  });
  x = node("round", {node.CastTo(x, DType::kFloat32)});
  if (zero) x = node("add", {x, node.CastTo(*zero, DType::kFloat32)});
  x = node("clip", {x}, {{"min", low}, {"max", high}});
  return node.CastTo(x, to);
}

// Returns OK for integers of 8 and 16 bits.
absl::Status CheckQuantized(DType type) {
  if (IsInteger(type) && BitsOf(type) <= 16) return absl::OkStatus();
  return Unimplemented("quantized elements of type ", DTypeName(type));
}

// Returns x as u8, its scale and its zero point: the scale spreads the elements and 0 over u8.
std::vector<Value> DynamicallyQuantized(OnnxNode& node, Value x) {
  const std::vector<int64_t> axes = AxesFrom(0, node.type(x).rank());
  const Value nothing = node.Number(x, 0);
  const Value high = node("max", {node("reduce_max", {x}, {{"axes", axes}, {"keepdims", int64_t{0}}}), nothing});
  const Value low = node("min", {node("reduce_min", {x}, {{"axes", axes}, {"keepdims", int64_t{0}}}), nothing});
  const Value range = node("sub", {high, low});
  const Value is_zero = node("equal", {range, nothing});
  const Value scale = node("where", {is_zero, node.Number(x, 1), node("div", {range, node.Number(x, 255)})});
  const Value point = node(
      "round", {node("clip", {node("div", {node("sub", {nothing, low}), scale})}, {{"min", 0.0}, {"max", 255.0}})});
  const Value zero = node.CastTo(point, DType::kUInt8);
  return {Quantized(node, node("div", {x, scale}), zero, DType::kUInt8), scale, zero};
}

struct Layout {
  int64_t axis = 1;
  int64_t block = 0;
};

absl::StatusOr<Layout> LayoutOf(OnnxNode& node) {
  const Layout layout{node.Int("axis", 1), node.Int("block_size", 0)};
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("block_size", {layout.block}));
  return layout;
}

Values QuantizeLinear(OnnxNode& node) {
  node.Ignore({"saturate"});  // of 8-bit floats
  const Value x = node.input(0);
  ASSIGN_OR_RETURN(const Layout layout, LayoutOf(node));
  const DType to = node.DTypeAttribute("output_dtype", node.has_input(2) ? node.input_type(2).dtype : DType::kUInt8);
  const DType computed = node.DTypeAttribute("precision", node.input_type(1).dtype);
  RETURN_IF_ERROR(CheckQuantized(to));
  const Value scale = node.CastTo(Beside(node, x, node.input(1), layout.axis, layout.block), computed);
  const Value multiple = node("div", {node.CastTo(x, computed), scale});
  std::optional<Value> zero;
  if (node.has_input(2)) zero = Beside(node, x, node.input(2), layout.axis, layout.block);
  return OneOutput(Quantized(node, multiple, zero, to));
}

Values DequantizeLinear(OnnxNode& node) {
  const Value x = node.input(0);
  const DType from = node.type(x).dtype;
  if (from != DType::kInt32) RETURN_IF_ERROR(CheckQuantized(from));
  ASSIGN_OR_RETURN(const Layout layout, LayoutOf(node));
  const DType to = node.DTypeAttribute("output_dtype", node.input_type(1).dtype);
  const Value real = node.CastTo(Centred(node, x, 2, layout.axis, layout.block), DType::kFloat32);
  const Value scale = Beside(node, x, node.input(1), layout.axis, layout.block);
  return OneOutput(node.CastTo(node("mul", {real, node.CastTo(scale, DType::kFloat32)}), to));
}

// Rows of the left operand and columns of the right one may have zero points of their own.
constexpr int64_t kRows = -2, kColumns = -1, kChannels = 1, kKernels = 0;

// Returns the sums of products of i32. Zero points are given by number of the input: one for a whole matrix, or one for
// each row of `a` or column of `b`.
Value Sums(OnnxNode& node, Value a, Value b, int a_zero, int b_zero) {
  const Value left = Centred(node, a, a_zero, kRows);
  const Value right = Centred(node, b, b_zero, kColumns);
  return Product(node, left, right);
}

Values DynamicQuantizeLinear(OnnxNode& node) { return DynamicallyQuantized(node, node.input(0)); }

Values MatMulInteger(OnnxNode& node) { return OneOutput(Sums(node, node.input(0), node.input(1), 2, 3)); }

Values ConvInteger(OnnxNode& node) {
  const Value x = Centred(node, node.input(0), 2, kChannels);
  const Value w = Centred(node, node.input(1), 3, kKernels);
  return OneOutput(Convolve(node, x, w));
}

// Rescales the sums of products, which have the scale left * right, to the scale `out`, in the type of its zero point.
// `along` is the axis of the sums that the right operand's parameters follow. Inputs are given by number.
absl::StatusOr<Value> Requantized(OnnxNode& node, Value sums, int left, int right, int out, int64_t along) {
  const Value zero = node.input(out + 1);
  RETURN_IF_ERROR(CheckQuantized(node.type(zero).dtype));
  const Value left_scale = Beside(node, sums, node.input(left), kRows);
  const Value right_scale = Beside(node, sums, node.input(right), along);
  const Value out_scale = Beside(node, sums, node.input(out), kRows);
  const Value point = Beside(node, sums, zero, kRows);
  const auto real = [&](Value x) { return node.CastTo(x, DType::kFloat32); };
  const Value factor = node("div", {node("mul", {real(left_scale), real(right_scale)}), real(out_scale)});
  const Value multiple = node("mul", {real(sums), factor});
  return Quantized(node, multiple, point, node.type(zero).dtype);
}

// Inputs: a, its scale and zero point, b, its scale and zero point, those of the result.
Values QLinearMatMul(OnnxNode& node) {
  const Value sums = Sums(node, node.input(0), node.input(3), 2, 5);
  return OneOutput(Requantized(node, sums, 1, 4, 6, kColumns));
}

// Inputs: x, its scale and zero point, w, its scale and zero point, those of the result, a bias of i32.
Values QLinearConv(OnnxNode& node) {
  const Value x = Centred(node, node.input(0), 2, kChannels);
  const Value w = Centred(node, node.input(3), 5, kKernels);
  ASSIGN_OR_RETURN(Value sums, Convolve(node, x, w));
  if (node.has_input(8)) sums = node("add", {sums, Beside(node, sums, node.input(8), kChannels)});
  return OneOutput(Requantized(node, sums, 1, 4, 6, kChannels));
}

// ---------------------------------------------------------------- operators of the domain com.microsoft, written by
// onnxruntime's quantizer
//
// They are composed as those of ONNX are, with the roundings of onnxruntime's processor kernels; tests compare the
// results bit by bit. If a kernel does not compute by a formula (the softmax by a table of integers), a comment there
// tells the difference.

// A scale and a zero point for a whole tensor, inputs `at` and `at + 1` of the node, as f32; the zero point may be
// omitted.
struct Parameters {
  Value scale, zero;
  std::optional<Value> point;  // as it is given
};

Value AsNumber(OnnxNode& node, Value x) {
  if (node.type(x).num_elements() != 1) {
    return node.Fail(Unimplemented("a scale or zero point ", node.type(x).ToString(), "; a number is"));
  }
  return node.CastTo(node.Reshape(x, {}), DType::kFloat32);
}

absl::StatusOr<Parameters> ParametersAt(OnnxNode& node, int at) {
  RETURN_IF_ERROR(node.CheckGiven({at}));
  Parameters read;
  read.scale = AsNumber(node, node.input(at));
  read.zero = node.Number(DType::kFloat32, 0);
  if (node.has_input(at + 1)) {
    read.zero = AsNumber(node, node.input(at + 1));
    read.point = node.Reshape(node.input(at + 1), {});
  }
  return read;
}

// Returns scale * (x - zero), of f32.
Value Real(OnnxNode& node, Value x, const Parameters& p) {
  if (const absl::Status status = CheckQuantized(node.type(x).dtype); !status.ok()) return node.Fail(status);
  return node("mul", {p.scale, node("sub", {node.CastTo(x, DType::kFloat32), p.zero})});
}

// Quantizes reals of f32 to integers of the type.
Value Integers(OnnxNode& node, Value real, const Parameters& p, DType to) {
  return Quantized(node, node("div", {real, p.scale}), p.point, to);
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
  RETURN_IF_ERROR(CheckQuantized(read.type));
  read.x = node.CastTo(node.input(0), DType::kFloat32);
  read.y = node.CastTo(node.input(3), DType::kFloat32);
  return read;
}

// With the ratios r = scale / scale of the result: (a * r_a + fixed) + b * r_b, where fixed = zero - (r_a * zero_a +
// r_b * zero_b). On processors with fused multiply-add, onnxruntime's kernel computes a * r_a + (b * r_b + fixed) with
// one rounding for each product and sum, also in `fixed`; few elements differ by that.
Values QLinearAdd(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Operands of, OperandsOf(node));
  const auto& [x, y, a, b, c, type] = of;
  const Value by_a = node("div", {a.scale, c.scale}), by_b = node("div", {b.scale, c.scale});
  const Value fixed = node("sub", {c.zero, node("add", {node("mul", {by_a, a.zero}), node("mul", {by_b, b.zero})})});
  const Value sum = node("add", {node("add", {node("mul", {x, by_a}), fixed}), node("mul", {y, by_b})});
  return OneOutput(Quantized(node, sum, std::nullopt, type));
}

// ((a - zero) * (b - zero)) * (scale_a * scale_b / scale).
Values QLinearMul(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Operands of, OperandsOf(node));
  const auto& [x, y, a, b, c, type] = of;
  const Value product = node("mul", {node("sub", {x, a.zero}), node("sub", {y, b.zero})});
  const Value ratio = node("div", {node("mul", {a.scale, b.scale}), c.scale});
  return OneOutput(Quantized(node, node("mul", {product, ratio}), c.point, type));
}

// Applies a function of reals between two quantized tensors. Inputs: x, its scale and zero point, those of the result.
Values Between(OnnxNode& node, const std::function<absl::StatusOr<Value>(Value)>& function) {
  ASSIGN_OR_RETURN(const Parameters of_x, ParametersAt(node, 1));
  ASSIGN_OR_RETURN(const Parameters of_y, ParametersAt(node, 3));
  ASSIGN_OR_RETURN(const Value y, function(Real(node, node.input(0), of_x)));
  return OneOutput(Integers(node, y, of_y, node.input_type(0).dtype));
}

Values QLinearSigmoid(OnnxNode& node) {
  return Between(node, [&](Value x) { return node("sigmoid", {x}); });
}

Values QLinearLeakyRelu(OnnxNode& node) {
  const double alpha = node.Float("alpha", 0.01f);
  return Between(node, [&](Value x) { return node("leaky_relu", {x}, {{"alpha", alpha}}); });
}

// onnxruntime uses a table of exponentials; the result differs by one if that and the quotient round to different
// sides.
Values QLinearSoftmax(OnnxNode& node) {
  const int64_t opset = node.Int("opset", 13);
  const int rank = node.input_rank(0);
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(-1, rank));
  if (opset < 13 && axis != rank - 1) return Unimplemented("several axes as one (opset < 13)");
  return Between(node, [&](Value x) { return node("softmax", {x}, {{"axis", axis}}); });
}

absl::Status CheckChannelsFirst(OnnxNode& node) {
  return node.Flag("channels_last") ? Unimplemented("channels_last = 1") : absl::OkStatus();
}

Values QLinearAveragePool(OnnxNode& node) {
  RETURN_IF_ERROR(CheckChannelsFirst(node));
  return Between(node, [&](Value x) { return AveragePoolOf(node, x); });
}

// Multiplies the sum of x - zero by scale_x / (scale_y * n).
Values QLinearGlobalAveragePool(OnnxNode& node) {
  RETURN_IF_ERROR(CheckChannelsFirst(node));
  ASSIGN_OR_RETURN(const Parameters of_x, ParametersAt(node, 1));
  ASSIGN_OR_RETURN(const Parameters of_y, ParametersAt(node, 3));
  const TensorType type = node.input_type(0);
  RETURN_IF_ERROR(CheckQuantized(type.dtype));
  if (type.rank() < 3) return InvalidArgument("operand ", type.ToString(), "; expected [n, c, spatial..]");
  const int64_t count = NumElements(Shape(type.shape.begin() + 2, type.shape.end()));
  const Value x = node.CastTo(node.input(0), DType::kInt32);
  const Value zero = node.CastTo(of_x.zero, DType::kInt32);
  const Value sum =
      node("reduce_sum", {node("sub", {x, zero})}, {{"axes", AxesFrom(2, type.rank())}, {"keepdims", int64_t{1}}});
  const Value over = node("mul", {of_y.scale, node.Number(of_y.scale, static_cast<double>(count))});
  const Value multiple = node("mul", {node.CastTo(sum, DType::kFloat32), node("div", {of_x.scale, over})});
  return OneOutput(Quantized(node, multiple, of_y.point, type.dtype));
}

// Inputs: scale and zero point of the result, then each part with its own.
Values QLinearConcat(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Parameters to, ParametersAt(node, 0));
  std::vector<Value> parts;
  RETURN_IF_ERROR(node.CheckGiven({2}));
  for (int i = 2; i < node.num_inputs(); i += 3) {
    RETURN_IF_ERROR(node.CheckGiven({i}));
    ASSIGN_OR_RETURN(const Parameters of_part, ParametersAt(node, i + 1));
    parts.push_back(Integers(node, Real(node, node.input(i), of_part), to, node.input_type(i).dtype));
  }
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(std::nullopt, node.type(parts[0]).rank()));
  return OneOutput(node.Concat(parts, axis));
}

// Inputs: a, its scale and zero point, b, its scale and zero point, an addend of i32, scale and zero point of the
// result; without these the result is f32.
Values QGemm(OnnxNode& node) {
  RETURN_IF_ERROR(node.CheckGiven({0, 1, 3, 4}));
  const double alpha = node.Float("alpha", 1);
  Value a = node.input(0), b = node.input(3);
  if (node.type(a).rank() != 2 || node.type(b).rank() != 2) return InvalidArgument("expected two matrices");
  if (node.Flag("transA")) a = node.Transpose(a, {1, 0});
  if (node.Flag("transB")) b = node.Transpose(b, {1, 0});
  Value sums = Sums(node, a, b, 2, 5);
  if (node.has_input(6)) sums = node("add", {sums, node.input(6)});
  const Value a_scale = AsNumber(node, node.input(1));
  const Value b_scale = Beside(node, sums, node.input(4), kColumns);
  const Value factor = node("mul", {node("mul", {node.Number(a_scale, alpha), a_scale}), b_scale});
  const Value real = node.CastTo(sums, DType::kFloat32);
  if (!node.has_input(7)) return OneOutput(node("mul", {real, factor}));
  ASSIGN_OR_RETURN(const Parameters to, ParametersAt(node, 7));
  const Value multiple = node("mul", {real, node("div", {factor, to.scale})});
  return OneOutput(Quantized(node, multiple, to.point, to.point ? node.type(*to.point).dtype : DType::kUInt8));
}

// Converts integer sums to reals, by the two scales, and adds a bias of f32, which may be omitted.
Values Dequantized(OnnxNode& node, Value sums, Value a_scale, Value b_scale, int bias) {
  const Value factor = node("mul", {a_scale, b_scale});
  Value y = node("mul", {node.CastTo(sums, DType::kFloat32), factor});
  if (node.has_input(bias)) y = node("add", {y, node.input(bias)});
  return OneOutput(y);
}

// Inputs: a, b, their scales, their zero points, a bias of f32.
Values MatMulIntegerToFloat(OnnxNode& node) {
  const Value sums = Sums(node, node.input(0), node.input(1), 4, 5);
  const Value a_scale = AsNumber(node, node.input(2));
  const Value b_scale = Beside(node, sums, node.input(3), kColumns);
  return Dequantized(node, sums, a_scale, b_scale, 6);
}

// Inputs: a of f32, quantized as by DynamicQuantizeLinear, b, its scale and zero point, a bias of f32.
Values DynamicQuantizeMatMul(OnnxNode& node) {
  const std::vector<Value> a = DynamicallyQuantized(node, node.input(0));
  const Value left = node("sub", {node.CastTo(a[0], DType::kInt32), node.CastTo(a[2], DType::kInt32)});
  const Value right = Centred(node, node.input(1), 3, kColumns);
  const Value sums = Product(node, left, right);
  const Value b_scale = Beside(node, sums, node.input(2), kColumns);
  return Dequantized(node, sums, a[1], b_scale, 4);
}

// ---------------------------------------------------------------- weights of few bits

// Returns the fields of `bits` bits that bytes hold along the last axis, as bytes; the lowest bits are the first field.
Value Fields(OnnxNode& node, Value packed, int64_t bits) {
  if (bits == 8) return packed;
  Shape shape = node.shape(packed);
  const int64_t count = 8 / bits;
  shape.push_back(1);
  Tensor above(TensorType{DType::kUInt8, {count}});
  for (int64_t i = 0; i < count; ++i) above.as<uint8_t>()[i] = static_cast<uint8_t>(8 - bits * (i + 1));
  const Value lifted = node("shift_left", {node.Reshape(packed, shape), node.Constant(above)});
  const Value fields = node("shift_right", {lifted, node.Number(DType::kUInt8, static_cast<double>(8 - bits))});
  shape.pop_back();
  shape.back() *= count;
  return node.Reshape(fields, shape);
}

// Returns an input of the elements of a shape, which may be given without some of its axes, in that shape.
absl::StatusOr<Value> InputOfShape(OnnxNode& node, int at, const std::string& name, const Shape& shape) {
  if (node.input_type(at).num_elements() != NumElements(shape)) {
    return InvalidArgument(name, " is ", node.input_type(at).ToString(), "; expected shape ", ShapeString(shape));
  }
  return node.Reshape(node.input(at), shape);
}

struct Groups {
  int64_t bits = 4, block = 0, depth = 0, columns = 0;
  int64_t count() const { return (depth + block - 1) / block; }  // along the depth
};

absl::StatusOr<Groups> GroupsOf(OnnxNode& node) {
  const Groups groups{node.Int("bits", 4), node.Int("block_size"), node.Int("K"), node.Int("N")};
  RETURN_IF_ERROR(node.status());
  if (groups.bits != 2 && groups.bits != 4 && groups.bits != 8) return Unimplemented("bits = ", groups.bits);
  if (groups.block < 16 || (groups.block & (groups.block - 1)) != 0) {
    return InvalidArgument("block_size = ", groups.block, "; expected a power of two of at least 16");
  }
  if (groups.depth < 1 || groups.columns < 1) {
    return InvalidArgument("K = ", groups.depth, ", N = ", groups.columns, "; expected positive numbers");
  }
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("K, N and block_size", {groups.depth, groups.columns, groups.block}));
  return groups;
}

// Returns fields - zero points, of f32, [columns, groups, block]. Points are packed like the weights, reals, or 2^(bits
// - 1).
absl::StatusOr<Value> CentredFields(OnnxNode& node, Value fields, const Groups& groups) {
  const auto centred = [&](DType type, Value points) {
    return node.CastTo(node("sub", {node.CastTo(fields, type), node.CastTo(points, type)}), DType::kFloat32);
  };
  if (!node.has_input(3)) {
    return centred(DType::kInt32, node.Number(DType::kInt32, static_cast<double>(int64_t{1} << (groups.bits - 1))));
  }
  const Shape each = {groups.columns, groups.count(), 1};
  if (node.input_type(3).dtype != DType::kUInt8) {
    ASSIGN_OR_RETURN(const Value points, InputOfShape(node, 3, "zero_points", each));
    return centred(DType::kFloat32, points);
  }
  const int64_t bytes = (groups.count() * groups.bits + 7) / 8;
  ASSIGN_OR_RETURN(const Value packed, InputOfShape(node, 3, "zero_points", {groups.columns, bytes}));
  const Value points = node.SliceAxis(Fields(node, packed, groups.bits), 1, 0, groups.count());
  return centred(DType::kInt32, node.Reshape(points, each));
}

// Multiplies by weights [N, K] that are (field - zero point) * scale, in groups along K; computed in f32. Inputs: x,
// packed fields, scales, zero points, an order of groups, a bias. The attribute accuracy_level allows roundings that
// nothing here makes.
Values MatMulNBits(OnnxNode& node) {
  node.Ignore({"accuracy_level"});
  if (node.Int("weight_prepacked", 0) != 0) return Unimplemented("weight_prepacked, a layout of one program");
  if (node.has_input(4)) return Unimplemented("input 4, g_idx");
  ASSIGN_OR_RETURN(const Groups groups, GroupsOf(node));
  const DType type = node.input_type(0).dtype;
  if (node.input_type(1).dtype != DType::kUInt8) return InvalidArgument("B is ", node.input_type(1).ToString());
  const Shape blobs = {groups.columns, groups.count(), groups.block * groups.bits / 8};
  ASSIGN_OR_RETURN(const Value packed, InputOfShape(node, 1, "B", blobs));
  ASSIGN_OR_RETURN(const Value scales, InputOfShape(node, 2, "scales", {groups.columns, groups.count(), 1}));
  ASSIGN_OR_RETURN(const Value centred, CentredFields(node, Fields(node, packed, groups.bits), groups));
  const Value reals = node("mul", {centred, node.CastTo(scales, DType::kFloat32)});
  const Value rows = node.Reshape(reals, {groups.columns, groups.count() * groups.block});
  const Value weights = node.Transpose(node.SliceAxis(rows, 1, 0, groups.depth), {1, 0});
  Value y = Product(node, node.CastTo(node.input(0), DType::kFloat32), weights);
  if (node.has_input(5)) {
    ASSIGN_OR_RETURN(const Value bias, InputOfShape(node, 5, "bias", {groups.columns}));
    y = node("add", {y, node.CastTo(bias, DType::kFloat32)});
  }
  return OneOutput(node.CastTo(y, type));
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
      {"com.microsoft.MatMulNBits", {1, 1, 3, 6, MatMulNBits}},
  };
}

}  // namespace rewright
