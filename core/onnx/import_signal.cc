// Signals: the discrete Fourier transform as products with its matrices, and windows.
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"
#include "core/onnx/tensor_proto.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// Real numbers [.., 1] or complex ones [.., 2] along an axis; cut or filled up with zeros to the length that is given.
Values Dft(OnnxNode& node) {
  const Value input = node.input(0);
  const int rank = node.type(input).rank();
  ASSIGN_OR_RETURN(const int64_t inverse, node.Int("inverse", 0));
  ASSIGN_OR_RETURN(const int64_t onesided, node.Int("onesided", 0));
  int64_t axis = node.opset() < 20 ? 1 : -2;
  if (node.opset() < 20) {
    ASSIGN_OR_RETURN(axis, node.Int("axis", axis));
  } else if (node.has_input(2)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.IntsInput(2, "axis"));
    if (given.size() != 1) return node.Invalid("axis is not one number");
    axis = given[0];
  }
  ASSIGN_OR_RETURN(axis, OnnxNode::Axis(axis, rank));
  const int64_t parts = node.shape(input).back();
  if (rank < 2 || axis == rank - 1 || (parts != 1 && parts != 2)) {
    return node.Invalid(absl::StrCat("operand ", node.type(input).ToString(), "; expected [.., 1] or [.., 2]"));
  }
  if (inverse != 0 && onesided != 0) return node.Unsupported("the inverse of a one-sided transform");
  int64_t length = node.shape(input)[static_cast<size_t>(axis)];
  if (node.has_input(1)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.IntsInput(1, "dft_length"));
    if (given.size() != 1 || given[0] < 1) return node.Invalid("dft_length is not one number, of at least 1");
    length = given[0];
  }
  if (length < 1) return node.Unsupported("a transform of nothing");
  // Beyond the end there are zeros: the matrices have the columns of what is there.
  const int64_t taken = std::min(length, node.shape(input)[static_cast<size_t>(axis)]);
  ASSIGN_OR_RETURN(const Value x, node.SliceAxis(input, axis, 0, taken));
  const int64_t rows = onesided != 0 ? length / 2 + 1 : length;
  const TensorType type{node.type(x).dtype, {rows, taken}};
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  RETURN_IF_ERROR(node.CheckListed(rows * taken));
  RETURN_IF_ERROR(node.ChargeGenerated({type.dtype, {2, rows, taken}}));
  std::vector<double> cosines, sines;
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t n = 0; n < taken; ++n) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * n % length) / static_cast<double>(length);
      const double scale = inverse != 0 ? 1 / static_cast<double>(length) : 1;
      cosines.push_back(scale * std::cos(angle));
      sines.push_back((inverse != 0 ? scale : -1) * std::sin(angle));
    }
  }
  const Value cosine = node.Constant(Tensor::FromVector(type.dtype, type.shape, cosines));
  const Value sine = node.Constant(Tensor::FromVector(type.dtype, type.shape, sines));
  Shape single = node.shape(x);
  single.pop_back();
  std::vector<Value> re, im;  // of the real part and of the imaginary part
  for (int64_t part = 0; part < parts; ++part) {
    ASSIGN_OR_RETURN(Value values, node.SliceAxis(x, rank - 1, part, part + 1));
    ASSIGN_OR_RETURN(values, node.Reshape(values, single));
    ASSIGN_OR_RETURN(re.emplace_back(), node.MapAxis(values, cosine, axis));
    ASSIGN_OR_RETURN(im.emplace_back(), node.MapAxis(values, sine, axis));
  }
  Formula f(node);
  const Value real = parts == 1 ? re[0] : f("sub", {re[0], im[1]});
  const Value imaginary = parts == 1 ? im[0] : f("add", {im[0], re[1]});
  RETURN_IF_ERROR(f.Done(imaginary).status());
  Shape shape = node.shape(real);
  shape.push_back(1);
  ASSIGN_OR_RETURN(const Value a, node.Reshape(real, shape));
  ASSIGN_OR_RETURN(const Value b, node.Reshape(imaginary, shape));
  return OneOutput(node.Concat({a, b}, rank - 1));
}

// a - b * cos(2 pi i / n) + c * cos(4 pi i / n)
Values Window(OnnxNode& node, double a, double b, double c) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> size, node.IntsInput(0, "size"));
  ASSIGN_OR_RETURN(const int64_t periodic, node.Int("periodic", 1));
  ASSIGN_OR_RETURN(const int64_t to, node.Int("output_datatype", 1));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(to));
  if (size.size() != 1 || size[0] < 1) return node.Invalid("size is not one number, of at least 1");
  RETURN_IF_ERROR(node.CheckListed(size[0]));
  RETURN_IF_ERROR(node.ChargeGenerated({dtype, size}));
  const double n = static_cast<double>(periodic != 0 ? size[0] : size[0] - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < size[0]; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / n;
    values.push_back(n == 0 ? 1 : a - b * std::cos(angle) + c * std::cos(2 * angle));
  }
  return std::vector<Value>{node.Constant(Tensor::FromVector(dtype, size, values))};
}

Values HannWindow(OnnxNode& node) { return Window(node, 0.5, 0.5, 0); }
Values HammingWindow(OnnxNode& node) { return Window(node, 25.0 / 46, 21.0 / 46, 0); }
Values BlackmanWindow(OnnxNode& node) { return Window(node, 0.42, 0.5, 0.08); }

}  // namespace

OnnxOperatorList SignalOperators() {
  return {
      {"DFT", {17, 20, 1, 3, Dft}},
      {"HannWindow", {17, 17, 1, 1, HannWindow}},
      {"HammingWindow", {17, 17, 1, 1, HammingWindow}},
      {"BlackmanWindow", {17, 17, 1, 1, BlackmanWindow}},
  };
}

}  // namespace rewright
