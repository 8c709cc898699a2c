// The forms of our operators in ONNX, from opset 13 on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/onnx/operators.h"
#include "core/onnx/tensor_proto.h"
#include "core/onnx/writer.h"

namespace rewright {

std::string Step(OnnxWriter& writer, const ExportedNode& node, const std::string& op_type,
                 const std::vector<std::string>& inputs) {
  const std::string result = writer.Temporary(node);
  writer.AddNode(op_type, inputs, {result});
  return result;
}

namespace {

const OnnxForm& FormOf(const ExportedNode& node) { return *FindOnnxForm(node.node.op->name); }

// The operator of the table's entry, without attributes.
void Same(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs);
}

// Of opset 13, ReduceMin and the like; the axes are an input of ReduceSum from there on, of the others from opset 18.
void WriteReduce(OnnxWriter& writer, const ExportedNode& node, const std::string& op_type, const std::string& input,
                 const std::string& output) {
  const std::vector<int64_t>& axes = node.Ints("axes");
  const bool as_input = op_type == "ReduceSum" || writer.opset() >= 18;
  std::vector<std::string> inputs = {input};
  if (as_input) inputs.push_back(writer.Ints(axes));
  onnx::NodeProto* reduce = writer.AddNode(op_type, inputs, {output});
  if (!as_input) writer.SetInts(reduce, "axes", axes);
  writer.SetInt(reduce, "keepdims", node.Int("keepdims"));
}

// not (a = b)
void NotEqual(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("Not", {Step(writer, node, "Equal", node.inputs)}, node.outputs);
}

void Remainder(OnnxWriter& writer, const ExportedNode& node) {
  writer.SetInt(writer.AddNode("Mod", node.inputs, node.outputs), "fmod", node.node.op->name == "rem" ? 1 : 0);
}

// The operands are low, x, high.
void Clamp(OnnxWriter& writer, const ExportedNode& node) {
  const std::string raised = Step(writer, node, "Max", {node.inputs[1], node.inputs[0]});
  writer.AddNode("Min", {raised, node.inputs[2]}, node.outputs);
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
  if (writer.opset() >= 20) return Same(writer, node);
  const std::string& x = node.inputs[0];
  const auto number = [&](double value) { return writer.Number(node.type().dtype, value); };
  const std::string erf = Step(writer, node, "Erf", {Step(writer, node, "Div", {x, number(std::sqrt(2.0))})});
  const std::string product = Step(writer, node, "Mul", {x, Step(writer, node, "Add", {erf, number(1)})});
  writer.AddNode("Mul", {product, number(0.5)}, node.outputs);
}

// Before opset 20: (x * 0.5) * (tanh((x + x * x * x * 0.044715) * sqrt(2 / pi)) + 1)
void GeluTanh(OnnxWriter& writer, const ExportedNode& node) {
  if (writer.opset() >= 20) {
    writer.SetString(writer.AddNode("Gelu", node.inputs, node.outputs), "approximate", "tanh");
    return;
  }
  const std::string& x = node.inputs[0];
  const auto number = [&](double value) { return writer.Number(node.type().dtype, value); };
  const std::string cube = Step(writer, node, "Mul", {Step(writer, node, "Mul", {x, x}), x});
  const std::string sum = Step(writer, node, "Add", {x, Step(writer, node, "Mul", {cube, number(0.044715)})});
  const std::string scaled = Step(writer, node, "Mul", {sum, number(std::sqrt(2 / std::numbers::pi))});
  const std::string shifted = Step(writer, node, "Add", {Step(writer, node, "Tanh", {scaled}), number(1)});
  writer.AddNode("Mul", {Step(writer, node, "Mul", {x, number(0.5)}), shifted}, node.outputs);
}

// x * sigmoid(x): Swish is of opset 24, newer than any that is written.
void Swish(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("Mul", {node.inputs[0], Step(writer, node, "Sigmoid", node.inputs)}, node.outputs);
}

// Before opset 14: x * (clip(x + 3, 0, 6) / 6)
void HardSwish(OnnxWriter& writer, const ExportedNode& node) {
  if (writer.opset() >= 14) return Same(writer, node);
  const std::string& x = node.inputs[0];
  const auto number = [&](double value) { return writer.Number(node.type().dtype, value); };
  const std::string held =
      Step(writer, node, "Clip", {Step(writer, node, "Add", {x, number(3)}), number(0), number(6)});
  writer.AddNode("Mul", {x, Step(writer, node, "Div", {held, number(6)})}, node.outputs);
}

// The name of the result.
std::string WriteCast(OnnxWriter& writer, const std::string& x, const std::string& result, DType to) {
  writer.SetInt(writer.AddNode("Cast", {x}, {result}), "to", DTypeToOnnx(to));
  return result;
}

void Cast(OnnxWriter& writer, const ExportedNode& node) {
  WriteCast(writer, node.inputs[0], node.outputs[0], node.type().dtype);
}

// BitShift is of integers without a sign, and by fewer places than there are bits.
void Shift(OnnxWriter& writer, const ExportedNode& node) {
  const char* direction = node.node.op->name == "shift_left" ? "LEFT" : "RIGHT";
  const DType dtype = node.type().dtype;
  if (IsUnsigned(dtype)) {
    writer.SetString(writer.AddNode("BitShift", node.inputs, node.outputs), "direction", direction);
    return;
  }
  DType without_sign = DType::kUInt64;
  for (DType candidate : kAllDTypes) {
    if (IsUnsigned(candidate) && BitsOf(candidate) == BitsOf(dtype)) without_sign = candidate;
  }
  const std::string bits = WriteCast(writer, node.inputs[0], writer.Temporary(node), without_sign);
  const std::string places = WriteCast(writer, node.inputs[1], writer.Temporary(node), without_sign);
  const std::string few = Step(writer, node, "Less", {places, writer.Number(without_sign, BitsOf(dtype))});
  const std::string none = writer.Number(without_sign, 0);
  const std::string by = Step(writer, node, "Where", {few, places, none});
  const std::string shifted = writer.Temporary(node);
  writer.SetString(writer.AddNode("BitShift", {bits, by}, {shifted}), "direction", direction);
  WriteCast(writer, Step(writer, node, "Where", {few, shifted, none}), node.outputs[0], dtype);
}

// ---------------------------------------------------------------- convolutions and pools

// Of integers by way of doubles, which hold every sum below 2^53.
void Conv(OnnxWriter& writer, const ExportedNode& node) {
  std::vector<std::string> inputs = node.inputs, outputs = node.outputs;
  const DType dtype = node.type().dtype;
  if (!IsFloating(dtype)) {
    outputs[0] = writer.Temporary(node);
    for (std::string& input : inputs) input = WriteCast(writer, input, writer.Temporary(node), DType::kFloat64);
  }
  onnx::NodeProto* conv = writer.AddNode("Conv", inputs, outputs);
  const Shape& w = node.operand_types[1].shape;
  writer.SetInts(conv, "dilations", node.Ints("dilations"));
  writer.SetInt(conv, "group", node.Int("groups"));
  writer.SetInts(conv, "kernel_shape", {w[2], w[3]});
  writer.SetInts(conv, "pads", node.Ints("pads"));
  writer.SetInts(conv, "strides", node.Ints("strides"));
  if (!IsFloating(dtype)) WriteCast(writer, outputs[0], node.outputs[0], dtype);
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
  WriteReduce(writer, node, op_type, node.inputs[0], node.outputs[0]);
}

// Of truth values: whether any is true, by counting; whether all are is whether none is false.
void ReduceTruth(OnnxWriter& writer, const ExportedNode& node) {
  if (node.Ints("axes").empty()) {
    writer.AddNode("Identity", node.inputs, node.outputs);
    return;
  }
  const bool all = node.node.op->name == "reduce_and";
  const std::string sought = all ? Step(writer, node, "Not", node.inputs) : node.inputs[0];
  const std::string number = writer.Temporary(node), count = writer.Temporary(node);
  const std::string any = all ? writer.Temporary(node) : node.outputs[0];
  writer.SetInt(writer.AddNode("Cast", {sought}, {number}), "to", DTypeToOnnx(DType::kInt64));
  WriteReduce(writer, node, "ReduceSum", number, count);
  writer.SetInt(writer.AddNode("Cast", {count}, {any}), "to", DTypeToOnnx(DType::kBool));
  if (all) writer.AddNode("Not", {any}, node.outputs);
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

// A tensor spread out and padded. Spreading appends zeros to every element, in an axis of their own, and cuts off those
// behind the last.
std::string WritePad(OnnxWriter& writer, const ExportedNode& node, std::string x, Shape shape,
                     const std::vector<int64_t>& before, std::vector<int64_t> after,
                     const std::vector<int64_t>& interior, double value) {
  const std::string number = writer.Number(node.operand_types[0].dtype, value);
  for (size_t axis = 0; axis < interior.size(); ++axis) {
    if (interior[axis] == 0) continue;
    Shape parted = shape;
    parted.insert(parted.begin() + static_cast<int64_t>(axis) + 1, 1);
    std::vector<int64_t> pads(2 * parted.size(), 0);
    pads[parted.size() + axis + 1] = interior[axis];
    x = Step(writer, node, "Reshape", {x, writer.Ints(parted)});
    x = Step(writer, node, "Pad", {x, writer.Ints(pads), number});
    shape[axis] *= interior[axis] + 1;
    x = Step(writer, node, "Reshape", {x, writer.Ints(shape)});
    after[axis] -= interior[axis];
  }
  std::vector<int64_t> pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  return Step(writer, node, "Pad", {x, writer.Ints(pads), number});
}

void Pad(OnnxWriter& writer, const ExportedNode& node) {
  const std::string padded = WritePad(writer, node, node.inputs[0], node.operand_types[0].shape, node.Ints("before"),
                                      node.Ints("after"), node.Ints("interior"), node.Real("value"));
  writer.AddNode("Identity", {padded}, node.outputs);
}

// Conv, of a padded operand where Conv itself cannot pad that way.
void GeneralConv(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& x = node.operand_types[0].shape;
  const Shape& w = node.operand_types[1].shape;
  const size_t axes = x.size() - 2;
  const auto list = [&](const char* attr, int64_t otherwise, size_t length) {
    return node.Ints(attr).empty() ? std::vector<int64_t>(length, otherwise) : node.Ints(attr);
  };
  std::vector<int64_t> pads = list("pads", 0, 2 * axes), spread(2, 0);
  for (int64_t dilation : list("lhs_dilations", 1, axes)) spread.push_back(dilation - 1);
  std::vector<std::string> inputs = node.inputs;
  const bool spreads = std::any_of(spread.begin(), spread.end(), [](int64_t count) { return count > 0; });
  const bool cuts = std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; });
  if (spreads || cuts) {
    std::vector<int64_t> before(2, 0), after(2, 0);
    const auto half = pads.begin() + static_cast<int64_t>(axes);
    before.insert(before.end(), pads.begin(), half);
    after.insert(after.end(), half, pads.end());
    inputs[0] = WritePad(writer, node, inputs[0], x, before, after, spread, 0);
    pads.assign(2 * axes, 0);
  }
  onnx::NodeProto* conv = writer.AddNode("Conv", inputs, node.outputs);
  writer.SetInts(conv, "dilations", list("rhs_dilations", 1, axes));
  writer.SetInt(conv, "group", node.Int("groups"));
  writer.SetInts(conv, "kernel_shape", {w.begin() + 2, w.end()});
  writer.SetInts(conv, "pads", pads);
  writer.SetInts(conv, "strides", list("strides", 1, axes));
}

// A letter for each pair of axes.
void DotGeneral(OnnxWriter& writer, const ExportedNode& node) {
  char next = 'a';
  std::string lhs(node.operand_types[0].shape.size(), 0), rhs(node.operand_types[1].shape.size(), 0), out;
  for (const char* part : {"batch", "contracting"}) {
    const std::vector<int64_t>& left = node.Ints((std::string("lhs_") + part).c_str());
    const std::vector<int64_t>& right = node.Ints((std::string("rhs_") + part).c_str());
    for (size_t k = 0; k < left.size(); ++k) {
      lhs[left[k]] = rhs[right[k]] = next;
      if (part == std::string("batch")) out += next;
      ++next;
    }
  }
  for (std::string* side : {&lhs, &rhs}) {
    for (char& letter : *side) {
      if (letter == 0) out += letter = next++;
    }
  }
  // Einsum is not of bfloat16.
  std::vector<std::string> inputs = node.inputs, outputs = node.outputs;
  const bool wide = node.type().dtype == DType::kBFloat16;
  if (wide) {
    outputs[0] = writer.Temporary(node);
    for (std::string& input : inputs) input = WriteCast(writer, input, writer.Temporary(node), DType::kFloat32);
  }
  writer.SetString(writer.AddNode("Einsum", inputs, outputs), "equation", lhs + "," + rhs + "->" + out);
  if (wide) WriteCast(writer, outputs[0], node.outputs[0], node.type().dtype);
}

// Numbers counted along an axis: Range, laid into the shape and repeated.
void Iota(OnnxWriter& writer, const ExportedNode& node) {
  const TensorType& type = node.type();
  const size_t axis = node.Int("axis");
  const double size = static_cast<double>(type.shape[axis]);
  Shape line(type.shape.size(), 1);
  line[axis] = type.shape[axis];
  const std::string range =
      Step(writer, node, "Range",
           {writer.Number(type.dtype, 0), writer.Number(type.dtype, size), writer.Number(type.dtype, 1)});
  writer.AddNode("Expand", {Step(writer, node, "Reshape", {range, writer.Ints(line)}), writer.Ints(type.shape)},
                 node.outputs);
}

// The axes in the order of the result, axes of size one between them, then repeated.
void BroadcastInDim(OnnxWriter& writer, const ExportedNode& node) {
  const std::vector<int64_t>& dims = node.Ints("dims");
  const Shape& x = node.operand_types[0].shape;
  std::vector<int64_t> perm(dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::sort(perm.begin(), perm.end(), [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
  Shape laid(node.Ints("shape").size(), 1);
  for (size_t k = 0; k < dims.size(); ++k) laid[dims[k]] = x[k];
  const std::string turned = writer.Temporary(node);
  writer.SetInts(writer.AddNode("Transpose", node.inputs, {turned}), "perm", perm);
  writer.AddNode("Expand",
                 {Step(writer, node, "Reshape", {turned, writer.Ints(laid)}), writer.Ints(node.Ints("shape"))},
                 node.outputs);
}

// max(0, min(start, most))
std::string ClampedStart(OnnxWriter& writer, const ExportedNode& node, size_t input, int64_t most) {
  std::string start = node.inputs[input];
  if (node.operand_types[input].dtype != DType::kInt64) {
    const std::string wide = writer.Temporary(node);
    writer.SetInt(writer.AddNode("Cast", {start}, {wide}), "to", DTypeToOnnx(DType::kInt64));
    start = wide;
  }
  const std::string low = Step(writer, node, "Min", {start, writer.Number(DType::kInt64, static_cast<double>(most))});
  return Step(writer, node, "Max", {low, writer.Number(DType::kInt64, 0)});
}

std::vector<int64_t> Count(int64_t size) {
  std::vector<int64_t> indices(static_cast<size_t>(size));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::string GatherAxis(OnnxWriter& writer, const ExportedNode& node, const std::string& x, const std::string& indices,
                       size_t axis) {
  const std::string result = writer.Temporary(node);
  writer.SetInt(writer.AddNode("Gather", {x, indices}, {result}), "axis", static_cast<int64_t>(axis));
  return result;
}

// Indices are gathered axis by axis.
void DynamicSlice(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& shape = node.operand_types[0].shape;
  std::string x = node.inputs[0];
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t size = node.type().shape[axis];
    const std::string start = ClampedStart(writer, node, 1 + axis, shape[axis] - size);
    x = GatherAxis(writer, node, x, Step(writer, node, "Add", {writer.Ints(Count(size)), start}), axis);
  }
  writer.AddNode("Identity", {x}, node.outputs);
}

// The update spread over the whole tensor by gathering, and chosen where a position lies in the window.
void DynamicUpdateSlice(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& shape = node.operand_types[0].shape;
  const Shape& window = node.operand_types[1].shape;
  if (NumElements(window) == 0) {
    writer.AddNode("Identity", {node.inputs[0]}, node.outputs);
    return;
  }
  std::string update = node.inputs[1], inside;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto number = [&](int64_t value) { return writer.Number(DType::kInt64, static_cast<double>(value)); };
    const std::string start = ClampedStart(writer, node, 2 + axis, shape[axis] - window[axis]);
    const std::string place = Step(writer, node, "Sub", {writer.Ints(Count(shape[axis])), start});
    const std::string low = Step(writer, node, "Max", {place, number(0)});
    const std::string held = Step(writer, node, "Min", {low, number(window[axis] - 1)});
    update = GatherAxis(writer, node, update, held, axis);
    Shape line(shape.size(), 1);
    line[axis] = shape[axis];
    const std::string mask =
        Step(writer, node, "Reshape", {Step(writer, node, "Equal", {place, held}), writer.Ints(line)});
    inside = axis == 0 ? mask : Step(writer, node, "And", {inside, mask});
  }
  writer.AddNode("Where", {inside, update, node.inputs[0]}, node.outputs);
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

// ---------------------------------------------------------------- sums where data says, orders, random numbers

std::string Transposed(OnnxWriter& writer, const ExportedNode& node, const std::string& x,
                       const std::vector<int64_t>& perm) {
  const std::string result = writer.Temporary(node);
  writer.SetInts(writer.AddNode("Transpose", {x}, {result}), "perm", perm);
  return result;
}

// ScatterND adds along the first axis: another is brought there, and the axes of the indices in the updates.
void ScatterAdd(OnnxWriter& writer, const ExportedNode& node) {
  const int64_t axis = node.Int("axis");
  Shape shape = node.operand_types[1].shape;
  const auto picked = static_cast<int64_t>(shape.size());
  shape.push_back(1);
  std::string indices = node.inputs[1];
  if (node.operand_types[1].dtype != DType::kInt64) {
    const std::string wide = writer.Temporary(node);
    writer.SetInt(writer.AddNode("Cast", {indices}, {wide}), "to", DTypeToOnnx(DType::kInt64));
    indices = wide;
  }
  indices = Step(writer, node, "Reshape", {indices, writer.Ints(shape)});
  // `count` axes from `axis` on come first.
  const auto to_front = [axis](int rank, int64_t count) {
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    std::iota(perm.begin(), perm.end(), 0);
    std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + count);
    return perm;
  };
  const int rank = node.type().rank();
  std::string x = node.inputs[0], updates = node.inputs[2], sum = node.outputs[0];
  if (axis > 0) {
    x = Transposed(writer, node, x, to_front(rank, 1));
    updates = Transposed(writer, node, updates, to_front(rank - 1 + static_cast<int>(picked), picked));
    sum = writer.Temporary(node);
  }
  writer.SetString(writer.AddNode("ScatterND", {x, indices, updates}, {sum}), "reduction", "add");
  if (axis == 0) return;
  std::vector<int64_t> back(static_cast<size_t>(rank));
  std::iota(back.begin(), back.end(), 0);
  std::rotate(back.begin(), back.begin() + 1, back.begin() + axis + 1);
  writer.SetInts(writer.AddNode("Transpose", {sum}, node.outputs), "perm", back);
}

void CumSum(OnnxWriter& writer, const ExportedNode& node) {
  const std::string axis = writer.Number(DType::kInt64, static_cast<double>(node.Int("axis")));
  onnx::NodeProto* sums = writer.AddNode("CumSum", {node.inputs[0], axis}, node.outputs);
  writer.SetInt(sums, "exclusive", node.Int("exclusive"));
  writer.SetInt(sums, "reverse", node.Int("reverse"));
}

void ScatterElementsAdd(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* scatter = writer.AddNode("ScatterElements", node.inputs, node.outputs);
  writer.SetInt(scatter, "axis", node.Int("axis"));
  writer.SetString(scatter, "reduction", "add");
}

void TopK(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* top = writer.AddNode("TopK", {node.inputs[0], writer.Ints({node.Int("k")})}, node.outputs);
  writer.SetInt(top, "axis", node.Int("axis"));
  writer.SetInt(top, "largest", node.Int("largest"));
}

// Numbers that are the same on every device are no operator of ONNX, and its own leave open which they are.
void RandomUniform(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* random = writer.AddNode("RandomUniform", node.inputs, node.outputs);
  random->set_domain(kOwnDomain);
  writer.SetInts(random, "shape", node.Ints("shape"));
  writer.SetInt(random, "stream", node.Int("stream"));
}

const absl::flat_hash_map<std::string, OnnxForm>& Forms() {
  static const auto* const forms = new absl::flat_hash_map<std::string, OnnxForm>{
      {"identity", {Same, "Identity"}},
      {"rsqrt", {Rsqrt}},
      {"relu", {Relu}},
      {"leaky_relu", {LeakyRelu}},
      {"clip", {Clip}},
      {"gelu", {Gelu, "Gelu"}},
      {"gelu_tanh", {GeluTanh}},
      {"swish", {Swish}},
      {"hard_swish", {HardSwish, "HardSwish"}},
      {"cast", {Cast}},
      {"add", {Same, "Add"}},
      {"sub", {Same, "Sub"}},
      {"mul", {Same, "Mul"}},
      {"div", {Same, "Div"}},
      {"rem", {Remainder}},
      {"mod", {Remainder}},
      {"pow", {Same, "Pow"}},
      {"min", {Same, "Min"}},
      {"max", {Same, "Max"}},
      {"equal", {Same, "Equal"}},
      {"not_equal", {NotEqual}},
      {"less", {Same, "Less"}},
      {"less_equal", {Same, "LessOrEqual"}},
      {"greater", {Same, "Greater"}},
      {"greater_equal", {Same, "GreaterOrEqual"}},
      {"logical_and", {Same, "And"}},
      {"logical_or", {Same, "Or"}},
      {"logical_xor", {Same, "Xor"}},
      {"bit_and", {Same, "BitwiseAnd", 18}},
      {"bit_or", {Same, "BitwiseOr", 18}},
      {"bit_xor", {Same, "BitwiseXor", 18}},
      {"shift_left", {Shift}},
      {"shift_right", {Shift}},
      {"where", {Same, "Where"}},
      {"clamp", {Clamp}},
      {"matmul", {Same, "MatMul"}},
      {"dot_general", {DotGeneral}},
      {"conv2d", {Conv}},
      {"convolution", {GeneralConv}},
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
      {"reduce_and", {ReduceTruth}},
      {"reduce_or", {ReduceTruth}},
      {"argmax", {ArgMax}},
      {"cumsum", {CumSum}},
      {"concat", {AlongAxis, "Concat"}},
      {"split", {Split}},
      {"slice", {Slice}},
      {"dynamic_slice", {DynamicSlice}},
      {"dynamic_update_slice", {DynamicUpdateSlice}},
      {"reverse", {Reverse}},
      {"pad", {Pad}},
      {"transpose", {Transpose}},
      {"reshape", {ToShape, "Reshape"}},
      {"expand", {ToShape, "Expand"}},
      {"broadcast_in_dim", {BroadcastInDim}},
      {"iota", {Iota}},
      {"gather", {AlongAxis, "Gather"}},
      {"gather_elements", {AlongAxis, "GatherElements"}},
      {"scatter_add", {ScatterAdd, "", 16}},
      {"scatter_elements_add", {ScatterElementsAdd, "", 16}},
      {"top_k", {TopK}},
      {"random_uniform", {RandomUniform}},
      {"depth_to_space", {Blocks, "DepthToSpace"}},
      {"space_to_depth", {Blocks, "SpaceToDepth"}},
  };
  return *forms;
}

// Of the functions that import and export have in common.
const absl::flat_hash_map<std::string, OnnxForm>& FunctionForms() {
  static const auto* const forms = [] {
    auto* table = new absl::flat_hash_map<std::string, OnnxForm>;
    for (const OnnxFunction& f : OnnxFunctions()) table->emplace(f.op, OnnxForm{Same, f.op_type});
    return table;
  }();
  return *forms;
}

}  // namespace

const OnnxForm* FindOnnxForm(const std::string& op) {
  for (const auto* forms : {&Forms(), &FunctionForms(), &TrainingForms()}) {
    if (const auto found = forms->find(op); found != forms->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace rewright
