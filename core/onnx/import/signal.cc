// Signals: the discrete Fourier transform as products with its matrices, and windows.
#include <cmath>
#include <numbers>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"
#include "core/onnx/proto.h"

namespace rewright {
namespace {

// Reads real numbers [.., 1] or complex ones [.., 2] along an axis, cut or padded with zeros to the given length.
Values Dft(OnnxNode& node) {
  const Value input = node.input(0);
  const int rank = node.type(input).rank();
  const bool inverse = node.Flag("inverse");
  const bool onesided = node.Flag("onesided");
  int64_t axis = node.opset() < 20 ? 1 : -2;
  if (node.opset() < 20) {
    axis = node.Int("axis", axis);
  } else if (node.has_input(2)) {
    const std::vector<int64_t> given = node.IntsInput(2, "axis");
    if (given.size() != 1) return InvalidArgument("axis is not one number");
    axis = given[0];
  }
  ASSIGN_OR_RETURN(axis, OnnxNode::Axis(axis, rank));
  const int64_t parts = node.shape(input).back();
  if (rank < 2 || axis == rank - 1 || (parts != 1 && parts != 2)) {
    return InvalidArgument("operand ", node.type(input).ToString(), "; expected [.., 1] or [.., 2]");
  }
  if (inverse && onesided) return Unimplemented("the inverse of a one-sided transform");
  int64_t length = node.shape(input)[static_cast<size_t>(axis)];
  if (node.has_input(1)) {
    const std::vector<int64_t> given = node.IntsInput(1, "dft_length");
    if (given.size() != 1 || given[0] < 1) return InvalidArgument("dft_length is not one number, of at least 1");
    length = given[0];
  }
  if (length < 1) return Unimplemented("a transform of nothing");
  // Zeros beyond the end contribute nothing: the matrices have columns for the existing elements only.
  const int64_t taken = std::min(length, node.shape(input)[static_cast<size_t>(axis)]);
  const Value x = node.SliceAxis(input, axis, 0, taken);
  const int64_t rows = onesided ? length / 2 + 1 : length;
  const TensorType type{node.type(x).dtype, {rows, taken}};
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  RETURN_IF_ERROR(node.CheckListed(rows * taken));
  RETURN_IF_ERROR(node.ChargeGenerated({type.dtype, {2, rows, taken}}));
  std::vector<double> cosines, sines;
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t n = 0; n < taken; ++n) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * n % length) / static_cast<double>(length);
      const double scale = inverse ? 1 / static_cast<double>(length) : 1;
      cosines.push_back(scale * std::cos(angle));
      sines.push_back((inverse ? scale : -1) * std::sin(angle));
    }
  }
  const Value cosine = node.Constant(Tensor::FromVector(type.dtype, type.shape, cosines));
  const Value sine = node.Constant(Tensor::FromVector(type.dtype, type.shape, sines));
  Shape single = node.shape(x);
  single.pop_back();
  std::vector<Value> re, im;  // of the real part and of the imaginary part
  for (int64_t part = 0; part < parts; ++part) {
    const Value values = node.Reshape(node.SliceAxis(x, rank - 1, part, part + 1), single);
    re.push_back(node.MapAxis(values, cosine, axis));
    im.push_back(node.MapAxis(values, sine, axis));
  }
  const Value real = parts == 1 ? re[0] : node("sub", {re[0], im[1]});
  const Value imaginary = parts == 1 ? im[0] : node("add", {im[0], re[1]});
  Shape shape = node.shape(real);
  shape.push_back(1);
  return OneOutput(node.Concat({node.Reshape(real, shape), node.Reshape(imaginary, shape)}, rank - 1));
}

// a - b * cos(2 pi i / n) + c * cos(4 pi i / n)
Values Window(OnnxNode& node, double a, double b, double c) {
  const std::vector<int64_t> size = node.IntsInput(0, "size");
  const bool periodic = node.Flag("periodic", true);
  const int64_t to = node.Int("output_datatype", 1);
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromOnnx(to));
  if (size.size() != 1 || size[0] < 1) return InvalidArgument("size is not one number, of at least 1");
  RETURN_IF_ERROR(node.CheckListed(size[0]));
  RETURN_IF_ERROR(node.ChargeGenerated({dtype, size}));
  const double n = static_cast<double>(periodic ? size[0] : size[0] - 1);
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
