// The forms of our operators in ONNX, from opset 13 on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "core/onnx/tensor_proto.h"
#include "core/onnx/writer.h"

namespace rewright {
namespace {

const OnnxForm& FormOf(const ExportedNode& node) { return *FindOnnxForm(node.node.op->name); }

// The operator of the table's entry, without attributes.
void Same(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs);
}

// Opset 13 knows Relu of floating-point numbers only.
void Relu(OnnxWriter& writer, const ExportedNode& node) {
  const DType dtype = node.type().dtype;
  if (IsFloating(dtype)) {
    writer.AddNode("Relu", node.inputs, node.outputs);
  } else {
    writer.AddNode("Max", {node.inputs[0], writer.Number(dtype, 0)}, node.outputs);
  }
}

void Rsqrt(OnnxWriter& writer, const ExportedNode& node) {
  const std::string root = writer.Temporary(node);
  writer.AddNode("Sqrt", node.inputs, {root});
  writer.AddNode("Reciprocal", {root}, node.outputs);
}

void LeakyRelu(OnnxWriter& writer, const ExportedNode& node) {
  writer.SetFloat(writer.AddNode("LeakyRelu", node.inputs, node.outputs), "alpha", node.Real("alpha"));
}

void Clip(OnnxWriter& writer, const ExportedNode& node) {
  const DType dtype = node.type().dtype;
  writer.AddNode("Clip",
                 {node.inputs[0], writer.Number(dtype, node.Real("min")), writer.Number(dtype, node.Real("max"))},
                 node.outputs);
}

// Before opset 20: x * (erf(x / sqrt 2) + 1) * 0.5
void Gelu(OnnxWriter& writer, const ExportedNode& node) {
  if (writer.opset() >= 20) {
    writer.AddNode("Gelu", node.inputs, node.outputs);
    return;
  }
  const DType dtype = node.type().dtype;
  const std::string scaled = writer.Temporary(node), erf = writer.Temporary(node), shifted = writer.Temporary(node),
                    product = writer.Temporary(node);
  writer.AddNode("Div", {node.inputs[0], writer.Number(dtype, std::sqrt(2.0))}, {scaled});
  writer.AddNode("Erf", {scaled}, {erf});
  writer.AddNode("Add", {erf, writer.Number(dtype, 1)}, {shifted});
  writer.AddNode("Mul", {node.inputs[0], shifted}, {product});
  writer.AddNode("Mul", {product, writer.Number(dtype, 0.5)}, node.outputs);
}

void Cast(OnnxWriter& writer, const ExportedNode& node) {
  writer.SetInt(writer.AddNode("Cast", node.inputs, node.outputs), "to", DTypeToOnnx(node.type().dtype));
}

// ---------------------------------------------------------------- convolutions and pools

void Conv(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* conv = writer.AddNode("Conv", node.inputs, node.outputs);
  const Shape& w = node.operand_types[1].shape;
  writer.SetInts(conv, "dilations", node.Ints("dilations"));
  writer.SetInt(conv, "group", node.Int("groups"));
  writer.SetInts(conv, "kernel_shape", {w[2], w[3]});
  writer.SetInts(conv, "pads", node.Ints("pads"));
  writer.SetInts(conv, "strides", node.Ints("strides"));
}

void Pool(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* pool = writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs);
  writer.SetInt(pool, "ceil_mode", node.Int("ceil_mode"));
  writer.SetInts(pool, "kernel_shape", node.Ints("kernel"));
  writer.SetInts(pool, "pads", node.Ints("pads"));
  writer.SetInts(pool, "strides", node.Ints("strides"));
  if (node.node.op->name == "max_pool2d") {
    writer.SetInts(pool, "dilations", node.Ints("dilations"));
  } else {
    writer.SetInt(pool, "count_include_pad", node.Int("count_include_pad"));
  }
}

// ---------------------------------------------------------------- normalizations

void BatchNorm(OnnxWriter& writer, const ExportedNode& node) {
  writer.SetFloat(writer.AddNode("BatchNormalization", node.inputs, node.outputs), "epsilon", node.Real("epsilon"));
}

void LayerNorm(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* norm = writer.AddNode("LayerNormalization", node.inputs, node.outputs);
  writer.SetInt(norm, "axis", node.Int("axis"));
  writer.SetFloat(norm, "epsilon", node.Real("epsilon"));
}

void Lrn(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* lrn = writer.AddNode("LRN", node.inputs, node.outputs);
  writer.SetFloat(lrn, "alpha", node.Real("alpha"));
  writer.SetFloat(lrn, "beta", node.Real("beta"));
  writer.SetFloat(lrn, "bias", node.Real("bias"));
  writer.SetInt(lrn, "size", node.Int("size"));
}

void AlongAxis(OnnxWriter& writer, const ExportedNode& node) {
  writer.SetInt(writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs), "axis", node.Int("axis"));
}

// ---------------------------------------------------------------- reductions

bool IsGlobalPool(const ExportedNode& node) {
  const std::string& name = node.node.op->name;
  const TensorType& type = node.operand_types[0];
  return (name == "reduce_mean" || name == "reduce_max") && type.rank() == 4 && IsFloating(type.dtype) &&
         node.Ints("axes") == std::vector<int64_t>{2, 3} && node.Int("keepdims") != 0;
}

// The axes are an input of ReduceSum from opset 13, of the others from opset 18.
void Reduce(OnnxWriter& writer, const ExportedNode& node) {
  const std::string op_type = FormOf(node).op_type;
  const std::vector<int64_t>& axes = node.Ints("axes");
  if (axes.empty()) {
    writer.AddNode("Identity", node.inputs, node.outputs);
    return;
  }
  if (IsGlobalPool(node)) {
    writer.AddNode(op_type == "ReduceMean" ? "GlobalAveragePool" : "GlobalMaxPool", node.inputs, node.outputs);
    return;
  }
  const bool as_input = op_type == "ReduceSum" || writer.opset() >= 18;
  std::vector<std::string> inputs = node.inputs;
  if (as_input) inputs.push_back(writer.Ints(axes));
  onnx::NodeProto* reduce = writer.AddNode(op_type, inputs, node.outputs);
  if (!as_input) writer.SetInts(reduce, "axes", axes);
  writer.SetInt(reduce, "keepdims", node.Int("keepdims"));
}

void ArgMax(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* argmax = writer.AddNode("ArgMax", node.inputs, node.outputs);
  writer.SetInt(argmax, "axis", node.Int("axis"));
  writer.SetInt(argmax, "keepdims", node.Int("keepdims"));
}

// ---------------------------------------------------------------- shapes and movement

void Split(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* split = writer.AddNode("Split", {node.inputs[0], writer.Ints(node.Ints("sizes"))}, node.outputs);
  writer.SetInt(split, "axis", node.Int("axis"));
}

// Only the axes that are cut are named.
void Slice(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& shape = node.operand_types[0].shape;
  const std::vector<int64_t>& all_starts = node.Ints("starts");
  const std::vector<int64_t>& all_stops = node.Ints("stops");
  const std::vector<int64_t>& all_steps = node.Ints("steps");
  std::vector<int64_t> starts, stops, axes, steps;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t step = all_steps.empty() ? 1 : all_steps[axis];
    if (all_starts[axis] == 0 && all_stops[axis] == shape[axis] && step == 1) continue;
    starts.push_back(all_starts[axis]);
    stops.push_back(all_stops[axis]);
    axes.push_back(static_cast<int64_t>(axis));
    steps.push_back(step);
  }
  if (axes.empty()) {
    writer.AddNode("Identity", node.inputs, node.outputs);
    return;
  }
  std::vector<std::string> inputs = {node.inputs[0], writer.Ints(starts), writer.Ints(stops), writer.Ints(axes)};
  const bool stepped = std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; });
  if (stepped) inputs.push_back(writer.Ints(steps));
  writer.AddNode("Slice", inputs, node.outputs);
}

void Reverse(OnnxWriter& writer, const ExportedNode& node) {
  const std::vector<int64_t>& axes = node.Ints("axes");
  if (axes.empty()) {
    writer.AddNode("Identity", node.inputs, node.outputs);
    return;
  }
  const std::vector<int64_t> minus_ones(axes.size(), -1);
  const std::vector<int64_t> beginning(axes.size(), std::numeric_limits<int64_t>::min());
  writer.AddNode(
      "Slice",
      {node.inputs[0], writer.Ints(minus_ones), writer.Ints(beginning), writer.Ints(axes), writer.Ints(minus_ones)},
      node.outputs);
}

void Pad(OnnxWriter& writer, const ExportedNode& node) {
  std::vector<int64_t> pads = node.Ints("before");
  pads.insert(pads.end(), node.Ints("after").begin(), node.Ints("after").end());
  writer.AddNode("Pad", {node.inputs[0], writer.Ints(pads), writer.Number(node.type().dtype, node.Real("value"))},
                 node.outputs);
}

void Transpose(OnnxWriter& writer, const ExportedNode& node) {
  writer.SetInts(writer.AddNode("Transpose", node.inputs, node.outputs), "perm", node.Ints("perm"));
}

// Reshape and Expand.
void ToShape(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode(FormOf(node).op_type, {node.inputs[0], writer.Ints(node.Ints("shape"))}, node.outputs);
}

void Blocks(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* blocks = writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs);
  writer.SetInt(blocks, "blocksize", node.Int("block"));
  if (node.node.op->name == "depth_to_space") {
    writer.SetString(blocks, "mode", node.Int("channel_first") != 0 ? "CRD" : "DCR");
  }
}

const absl::flat_hash_map<std::string, OnnxForm>& Forms() {
  static const auto* const forms = new absl::flat_hash_map<std::string, OnnxForm>{
      {"identity", {Same, "Identity"}},
      {"neg", {Same, "Neg"}},
      {"abs", {Same, "Abs"}},
      {"floor", {Same, "Floor"}},
      {"ceil", {Same, "Ceil"}},
      {"reciprocal", {Same, "Reciprocal"}},
      {"exp", {Same, "Exp"}},
      {"log", {Same, "Log"}},
      {"sqrt", {Same, "Sqrt"}},
      {"rsqrt", {Rsqrt}},
      {"erf", {Same, "Erf"}},
      {"tanh", {Same, "Tanh"}},
      {"sigmoid", {Same, "Sigmoid"}},
      {"relu", {Relu}},
      {"leaky_relu", {LeakyRelu}},
      {"clip", {Clip}},
      {"gelu", {Gelu}},
      {"logical_not", {Same, "Not"}},
      {"cast", {Cast}},
      {"add", {Same, "Add"}},
      {"sub", {Same, "Sub"}},
      {"mul", {Same, "Mul"}},
      {"div", {Same, "Div"}},
      {"pow", {Same, "Pow"}},
      {"min", {Same, "Min"}},
      {"max", {Same, "Max"}},
      {"equal", {Same, "Equal"}},
      {"less", {Same, "Less"}},
      {"less_equal", {Same, "LessOrEqual"}},
      {"logical_and", {Same, "And"}},
      {"logical_or", {Same, "Or"}},
      {"where", {Same, "Where"}},
      {"matmul", {Same, "MatMul"}},
      {"conv2d", {Conv}},
      {"max_pool2d", {Pool, "MaxPool"}},
      {"avg_pool2d", {Pool, "AveragePool"}},
      {"batch_norm", {BatchNorm}},
      {"layer_norm", {LayerNorm, "", 17}},
      {"lrn", {Lrn}},
      {"softmax", {AlongAxis, "Softmax"}},
      {"log_softmax", {AlongAxis, "LogSoftmax"}},
      {"reduce_sum", {Reduce, "ReduceSum"}},
      {"reduce_mean", {Reduce, "ReduceMean"}},
      {"reduce_max", {Reduce, "ReduceMax"}},
      {"reduce_min", {Reduce, "ReduceMin"}},
      {"reduce_prod", {Reduce, "ReduceProd"}},
      {"argmax", {ArgMax}},
      {"concat", {AlongAxis, "Concat"}},
      {"split", {Split}},
      {"slice", {Slice}},
      {"reverse", {Reverse}},
      {"pad", {Pad}},
      {"transpose", {Transpose}},
      {"reshape", {ToShape, "Reshape"}},
      {"expand", {ToShape, "Expand"}},
      {"gather", {AlongAxis, "Gather"}},
      {"depth_to_space", {Blocks, "DepthToSpace"}},
      {"space_to_depth", {Blocks, "SpaceToDepth"}},
  };
  return *forms;
}

}  // namespace

const OnnxForm* FindOnnxForm(const std::string& op) {
  const auto found = Forms().find(op);
  return found == Forms().end() ? nullptr : &found->second;
}

}  // namespace rewright
