// Products: MatMul, Gemm, Conv.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/onnx/operators.h"
#include "core/onnx/status_macros.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// Vectors count as one row on the left and one column on the right; the result loses that axis again.
Values MatMul(OnnxNode& node) {
  Value a = node.input(0);
  Value b = node.input(1);
  const int rank_a = node.type(a).rank();
  const int rank_b = node.type(b).rank();
  if (rank_a == 0 || rank_b == 0) return node.Invalid("a scalar operand; expected vectors or matrices");
  if (rank_a == 1) {
    ASSIGN_OR_RETURN(a, node.Reshape(a, {1, node.shape(a)[0]}));
  }
  if (rank_b == 1) {
    ASSIGN_OR_RETURN(b, node.Reshape(b, {node.shape(b)[0], 1}));
  }
  ASSIGN_OR_RETURN(const Value product, node.Apply("matmul", {a, b}));
  Shape shape = node.shape(product);
  if (rank_b == 1) shape.pop_back();
  if (rank_a == 1) shape.erase(shape.end() - (rank_b == 1 ? 1 : 2));
  return OneOutput(node.Reshape(product, shape));
}

absl::StatusOr<Value> Scaled(OnnxNode& node, Value x, double factor) {
  if (factor == 1) return x;
  return node.Apply("mul", {x, node.Number(node.type(x).dtype, factor)});
}

// alpha * A' B' + beta * C
Values Gemm(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t transpose_a, node.Int("transA", 0));
  ASSIGN_OR_RETURN(const int64_t transpose_b, node.Int("transB", 0));
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1));
  ASSIGN_OR_RETURN(const double beta, node.Float("beta", 1));
  if (node.input_rank(0) != 2 || node.input_rank(1) != 2) {
    return node.Invalid(absl::StrCat("operands ", node.input_type(0).ToString(), " and ", node.input_type(1).ToString(),
                                     "; expected two matrices"));
  }
  Value a = node.input(0);
  Value b = node.input(1);
  if (transpose_a != 0) {
    ASSIGN_OR_RETURN(a, node.Transpose(a, {1, 0}));
  }
  if (transpose_b != 0) {
    ASSIGN_OR_RETURN(b, node.Transpose(b, {1, 0}));
  }
  ASSIGN_OR_RETURN(const Value product, node.Apply("matmul", {a, b}));
  ASSIGN_OR_RETURN(const Value result, Scaled(node, product, alpha));
  if (!node.has_input(2) || beta == 0) return std::vector<Value>{result};
  ASSIGN_OR_RETURN(const Value c, Scaled(node, node.input(2), beta));
  ASSIGN_OR_RETURN(const Value sum, node.Apply("add", {result, c}));
  if (node.shape(sum) != node.shape(result)) {
    return node.Invalid(absl::StrCat("C is ", node.input_type(2).ToString(), ", which does not broadcast to ",
                                     ShapeString(node.shape(result))));
  }
  return std::vector<Value>{sum};
}

Values Conv(OnnxNode& node) {
  const Value x = node.input(0);
  const Value w = node.input(1);
  const int rank = node.type(x).rank();
  if (rank != node.type(w).rank() || rank < 3) {
    return node.Invalid(absl::StrCat("operands ", node.type(x).ToString(), " and ", node.type(w).ToString(),
                                     "; expected [n, c, spatial..] and [o, c/group, kernel..]"));
  }
  if (rank > 4) return node.Unsupported(absl::StrCat(rank - 2, "-dimensional convolutions"));
  const Shape& w_shape = node.shape(w);
  const std::vector<int64_t> kernel(w_shape.begin() + 2, w_shape.end());
  ASSIGN_OR_RETURN(const std::vector<int64_t> declared, node.Ints("kernel_shape", kernel));
  if (declared != kernel) {
    return node.Invalid(
        absl::StrCat("kernel_shape is ", ShapeString(declared), ", but the kernel is ", node.type(w).ToString()));
  }
  ASSIGN_OR_RETURN(const int64_t groups, node.Int("group", 1));
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("group", {groups}));
  ASSIGN_OR_RETURN(const OnnxWindow window, ReadWindow(node, node.shape(x), kernel));
  ASSIGN_OR_RETURN(const Value images, ToImages(node, window, x));
  ASSIGN_OR_RETURN(const Value kernels, ToImages(node, window, w));
  ASSIGN_OR_RETURN(
      Value y,
      node.Apply(
          "conv2d", {images, kernels},
          {{"strides", window.strides}, {"pads", window.pads}, {"dilations", window.dilations}, {"groups", groups}}));
  if (node.has_input(2)) {
    const int64_t channels = node.shape(y)[1];
    if (node.input_type(2).shape != Shape{channels}) {
      return node.Invalid(absl::StrCat("B is ", node.input_type(2).ToString(), "; expected shape [", channels, "]"));
    }
    ASSIGN_OR_RETURN(const Value bias, node.Reshape(node.input(2), {1, channels, 1, 1}));
    ASSIGN_OR_RETURN(y, node.Apply("add", {y, bias}));
  }
  return OneOutput(FromImages(node, window, y));
}

}  // namespace

OnnxOperatorList ProductOperators() {
  return {
      {"MatMul", {1, 13, 2, 2, MatMul}},
      {"Gemm", {7, 13, 2, 3, Gemm}},
      {"Conv", {1, 22, 2, 3, Conv}},
  };
}

}  // namespace rewright
