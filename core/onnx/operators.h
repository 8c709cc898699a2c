// The families of importers; each returns its part of the table of operators.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/onnx/import/node.h"

namespace rewright {

// The domain of operators that ONNX lacks and exported graphs need: only Rewright reads and writes them; for other
// programs they are custom operators. The table of operators names them "rewright.RandomUniform".
inline constexpr char kOwnDomain[] = "rewright";

// The limit on the steps of a recurrence, which are written out, each as some twenty nodes.
inline constexpr int64_t kMaxRecurrentSteps = 1024;

using OnnxOperatorList = std::vector<std::pair<std::string, OnnxOperator>>;

OnnxOperatorList ElementwiseOperators();      // import/elementwise.cc
OnnxOperatorList ProductOperators();          // import/product.cc: MatMul, Gemm, Conv, ConvTranspose
OnnxOperatorList QuantizedOperators();        // import/quantize.cc: integers that stand for reals
OnnxOperatorList MicrosoftOperators();        // import/microsoft.cc: onnxruntime's fused operators
OnnxOperatorList EinsumOperators();           // import/einsum.cc
OnnxOperatorList PoolOperators();             // import/pool.cc
OnnxOperatorList NormOperators();             // import/norm.cc
OnnxOperatorList TrainingOperators();         // import/training.cc: dropout, losses of labels
OnnxOperatorList ReduceOperators();           // import/reduce.cc
OnnxOperatorList ShapeOperators();            // import/shape.cc: the elements stay in their order
OnnxOperatorList MoveOperators();             // import/move.cc: elements are cut, joined, moved, repeated
OnnxOperatorList ResizeOperators();           // import/resize.cc
OnnxOperatorList AttentionOperators();        // import/attention.cc: attention, rotary embeddings
OnnxOperatorList LinearAttentionOperators();  // import/linear_attention.cc: LinearAttention, CausalConvWithState
OnnxOperatorList RecurrentOperators();        // import/recurrent.cc: RNN, GRU, LSTM, step by step
OnnxOperatorList SelectOperators();           // import/select.cc: elements by lists of indices, orders
OnnxOperatorList GridOperators();             // import/grid.cc: images read at computed positions
OnnxOperatorList SignalOperators();           // import/signal.cc: Fourier transforms, windows
OnnxOperatorList ConstantOperators();         // import/constant.cc
OnnxOperatorList PreprocessingOperators();    // import/preprocessing.cc: scikit-learn's, of the domain ai.onnx.ml

// Returns the value of an axis attribute or input: attribute `axes` before opset `input_since`, from then on input 1.
// No value if it is not given.
std::optional<std::vector<int64_t>> AxesOf(OnnxNode& node, int64_t input_since);

// Repeats each axis `repeats` times: the tensor as a whole, or with `inner` each element.
Value Repeat(OnnxNode& node, Value x, const std::vector<int64_t>& repeats, bool inner);

// Returns the product a b; a vector is a row on the left and a column on the right.
Value Product(OnnxNode& node, Value a, Value b);
// Returns the convolution of x by w with the attributes of Conv.
absl::StatusOr<Value> Convolve(OnnxNode& node, Value x, Value w);

// Returns x times the factor.
Value Scaled(OnnxNode& node, Value x, double factor);
// Return the value of Conv, and of Gemm: alpha * A' B' + beta * C.
absl::StatusOr<Value> ConvOf(OnnxNode& node);
absl::StatusOr<Value> GemmOf(OnnxNode& node);
// Returns the AveragePool of x, which replaces input 0.
absl::StatusOr<Value> AveragePoolOf(OnnxNode& node, Value x);

// Returns x over the root of its mean square along the axes from `axis` on, times the scale.
Value RmsNormalized(OnnxNode& node, Value x, Value scale, int64_t axis, double epsilon);

// Checks that known indices along an axis of input 0 lie in it; they may count from its end.
absl::Status CheckIndices(const OnnxNode& node, Value indices, int64_t axis);

// Returns the shape as a matrix: the axes before `axis` (0..rank) are its rows.
absl::StatusOr<Shape> AsMatrix(const Shape& shape, int64_t axis);

// A window sliding over the last two axes of [n, c, h, w]; [n, c, l] gets a height of one.
struct OnnxWindow {
  std::vector<int64_t> kernel, strides, pads, dilations;  // two, two, four (top, left, bottom, right), two
  bool one_dimensional = false;
};
// Reads the attributes strides, pads, dilations and auto_pad of Conv and pools, for an operand of that shape; ReadAxes
// leaves a single axis as it is.
absl::StatusOr<OnnxWindow> ReadAxes(OnnxNode& node, const Shape& shape, const std::vector<int64_t>& kernel);
absl::StatusOr<OnnxWindow> ReadWindow(OnnxNode& node, const Shape& shape, const std::vector<int64_t>& kernel);
// Return [n, c, l] as [n, c, 1, l] if the window is one-dimensional, and back.
Value ToImages(OnnxNode& node, const OnnxWindow& window, Value x);
Value FromImages(OnnxNode& node, const OnnxWindow& window, Value y);

}  // namespace rewright
