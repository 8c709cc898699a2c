// Products: MatMul, Gemm, Conv, ConvTranspose.
#include <algorithm>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

Values MatMul(OnnxNode& node) { return OneOutput(Product(node, node.input(0), node.input(1))); }

// Adds the bias B of a convolution, one number per channel.
Value AddBias(OnnxNode& node, Value y) {
  if (!node.has_input(2)) return y;
  const int64_t channels = node.shape(y)[1];
  if (node.input_type(2).shape != Shape{channels}) {
    return node.Fail(InvalidArgument("B is ", node.input_type(2).ToString(), "; expected shape [", channels, "]"));
  }
  Shape shape(node.shape(y).size(), 1);
  shape[1] = channels;
  return node("add", {y, node.Reshape(node.input(2), shape)});
}

Values Conv(OnnxNode& node) { return OneOutput(ConvOf(node)); }
Values Gemm(OnnxNode& node) { return OneOutput(GemmOf(node)); }

// Converts W[C, M/g, k..] of a transposed convolution to the kernel [M, C/g, k..] of the equivalent convolution:
// channels exchanged within each group, taps in reverse order.
Value TransposedKernel(OnnxNode& node, Value w, int64_t groups) {
  const Shape shape = node.shape(w);
  const int64_t in = shape[0] / groups, out = shape[1];
  Shape parted = {groups, in, out}, joined = {groups * out, in};
  parted.insert(parted.end(), shape.begin() + 2, shape.end());
  joined.insert(joined.end(), shape.begin() + 2, shape.end());
  std::vector<int64_t> perm = AxesFrom(0, static_cast<int64_t>(parted.size()));
  std::swap(perm[1], perm[2]);
  const Value kernel = node.Reshape(node.Transpose(node.Reshape(w, parted), perm), joined);
  return node("reverse", {kernel}, {{"axes", AxesFrom(2, static_cast<int64_t>(shape.size()))}});
}

// Returns the pads of a transposed convolution: the number of elements of the full result that are cut off on each
// side. They are given, or follow from the shape of the result: the given one, or with auto_pad strides times that of
// the operand.
absl::StatusOr<std::vector<int64_t>> TransposedPads(OnnxNode& node, const OnnxWindow& window, const Shape& shape,
                                                    const std::vector<int64_t>& output_padding) {
  const size_t axes = shape.size() - 2;
  const std::string auto_pad = node.String("auto_pad", "NOTSET");
  std::vector<int64_t> sizes = node.Ints("output_shape");
  std::vector<int64_t> pads = window.pads;
  if (sizes.size() == axes + 2) sizes.erase(sizes.begin(), sizes.begin() + 2);
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (sizes.empty() && !same) return pads;
  for (size_t k = 0; same && sizes.size() < axes; ++k) sizes.push_back(shape[2 + k] * window.strides[k]);
  if (sizes.size() != axes) return InvalidArgument("output_shape has ", sizes.size(), " entries");
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("output_shape", sizes));
  for (size_t k = 0; k < axes; ++k) {
    const int64_t extent = (window.kernel[k] - 1) * window.dilations[k] + 1;
    const int64_t full = (shape[2 + k] - 1) * window.strides[k] + extent + output_padding[k];
    const int64_t total = full - sizes[k];  // negative: the missing elements are added at the end
    pads[k] = total < 0 ? 0 : auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[axes + k] = total - pads[k];
  }
  return pads;
}

// Convolves the operand, spread out by the strides.
Values ConvTranspose(OnnxNode& node) {
  const Value x = node.input(0);
  const Value w = node.input(1);
  const int rank = node.type(x).rank();
  if (rank != node.type(w).rank() || rank < 3) {
    return InvalidArgument("operands ", node.type(x).ToString(), " and ", node.type(w).ToString(),
                           "; expected [n, c, spatial..] and [c, o/group, kernel..]");
  }
  const size_t axes = static_cast<size_t>(rank) - 2;
  const Shape shape = node.shape(x);
  const Shape w_shape = node.shape(w);
  const int64_t groups = node.Int("group", 1);
  if (groups < 1 || w_shape[0] % groups != 0) return InvalidArgument("group is ", groups);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return Unimplemented("an empty operand");
  const std::vector<int64_t> kernel(w_shape.begin() + 2, w_shape.end());
  if (node.Ints("kernel_shape", kernel) != kernel) return InvalidArgument("kernel_shape is not that of W");
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadAxes(node, shape, kernel));
  const std::vector<int64_t> output_padding = node.Ints("output_padding", std::vector<int64_t>(axes, 0));
  if (output_padding.size() != axes) return InvalidArgument("output_padding has not one entry for each axis");
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("output_padding", output_padding));
  ASSIGN_OR_RETURN(const std::vector<int64_t> cuts, TransposedPads(node, window, shape, output_padding));
  std::vector<int64_t> pads(2 * axes);
  for (size_t k = 0; k < axes; ++k) {
    const int64_t reach = (kernel[k] - 1) * window.dilations[k];
    pads[k] = reach - cuts[k];
    pads[axes + k] = reach - cuts[axes + k] + output_padding[k];
  }
  const Attrs attrs = {
      {"pads", pads}, {"lhs_dilations", window.strides}, {"rhs_dilations", window.dilations}, {"groups", groups}};
  return OneOutput(AddBias(node, node("convolution", {x, TransposedKernel(node, w, groups)}, attrs)));
}

}  // namespace

Value Scaled(OnnxNode& node, Value x, double factor) {
  return factor == 1 ? x : node("mul", {x, node.Number(x, factor)});
}

absl::StatusOr<Value> GemmOf(OnnxNode& node) {
  const double beta = node.Float("beta", 1);
  if (node.input_rank(0) != 2 || node.input_rank(1) != 2) {
    return InvalidArgument("operands ", node.input_type(0).ToString(), " and ", node.input_type(1).ToString(),
                           "; expected two matrices");
  }
  Value a = node.input(0), b = node.input(1);
  if (node.Flag("transA")) a = node.Transpose(a, {1, 0});
  if (node.Flag("transB")) b = node.Transpose(b, {1, 0});
  const Value result = Scaled(node, node("matmul", {a, b}), node.Float("alpha", 1));
  if (!node.has_input(2) || beta == 0) return result;
  const Value sum = node("add", {result, Scaled(node, node.input(2), beta)});
  if (node.shape(sum) != node.shape(result)) {
    return InvalidArgument("C is ", node.input_type(2).ToString(), ", which does not broadcast to ",
                           ShapeString(node.shape(result)));
  }
  return sum;
}

absl::StatusOr<Value> ConvOf(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Value y, Convolve(node, node.input(0), node.input(1)));
  return AddBias(node, y);
}

Value Product(OnnxNode& node, Value a, Value b) {
  const int rank_a = node.type(a).rank();
  const int rank_b = node.type(b).rank();
  if (rank_a == 0 || rank_b == 0) return node.Fail(InvalidArgument("a scalar operand; expected vectors or matrices"));
  if (rank_a == 1) a = node.Reshape(a, {1, node.shape(a)[0]});
  if (rank_b == 1) b = node.Reshape(b, {node.shape(b)[0], 1});
  const Value product = node("matmul", {a, b});
  Shape shape = node.shape(product);
  if (rank_b == 1) shape.pop_back();
  if (rank_a == 1) shape.erase(shape.end() - (rank_b == 1 ? 1 : 2));
  return node.Reshape(product, shape);
}

absl::StatusOr<Value> Convolve(OnnxNode& node, Value x, Value w) {
  const int rank = node.type(x).rank();
  if (rank != node.type(w).rank() || rank < 3) {
    return InvalidArgument("operands ", node.type(x).ToString(), " and ", node.type(w).ToString(),
                           "; expected [n, c, spatial..] and [o, c/group, kernel..]");
  }
  const Shape& w_shape = node.shape(w);
  const std::vector<int64_t> kernel(w_shape.begin() + 2, w_shape.end());
  const std::vector<int64_t> declared = node.Ints("kernel_shape", kernel);
  if (declared != kernel) {
    return InvalidArgument("kernel_shape is ", ShapeString(declared), ", but the kernel is ", node.type(w).ToString());
  }
  const int64_t groups = node.Int("group", 1);
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("group", {groups}));
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadWindow(node, node.shape(x), kernel));
  if (rank > 4) {
    return node(
        "convolution", {x, w},
        {{"strides", window.strides}, {"pads", window.pads}, {"rhs_dilations", window.dilations}, {"groups", groups}});
  }
  const Value images = ToImages(node, window, x);
  const Value kernels = ToImages(node, window, w);
  const Value y =
      node("conv2d", {images, kernels},
           {{"strides", window.strides}, {"pads", window.pads}, {"dilations", window.dilations}, {"groups", groups}});
  return FromImages(node, window, y);
}

OnnxOperatorList ProductOperators() {
  return {
      {"MatMul", {1, 13, 2, 2, MatMul}},
      {"Gemm", {7, 13, 2, 3, Gemm}},
      {"Conv", {1, 22, 2, 3, Conv}},
      {"ConvTranspose", {1, 22, 2, 3, ConvTranspose}},
  };
}

}  // namespace rewright
