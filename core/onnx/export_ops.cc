// The forms of our operators in ONNX, from opset 13 on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/onnx/operators.h"
#include "core/onnx/tensor_proto.h"
#include "core/onnx/writer.h"
#include "core/ops/ops.h"

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

// The same, of a row of functions.cc: attributes are real numbers.
void Function(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* function = writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs);
  for (const auto& [name, attr] : node.node.attrs) writer.SetFloat(function, name, std::get<double>(attr));
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
  writer.SetInt(writer.AddNode("Mod", node.inputs, node.outputs), "fmod", node.node.op == ops::Rem() ? 1 : 0);
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

// Before opset 20: (x * 0.5) * (tanh((x * sqrt(2 / pi)) * (x * 0.044715 * x + 1)) + 1), which onnxruntime fuses; it
// knows no form with the cube of x but by Pow.
void GeluTanh(OnnxWriter& writer, const ExportedNode& node) {
  if (writer.opset() >= 20) {
    writer.SetString(writer.AddNode("Gelu", node.inputs, node.outputs), "approximate", "tanh");
    return;
  }
  const std::string& x = node.inputs[0];
  const auto number = [&](double value) { return writer.Number(node.type().dtype, value); };
  const std::string square = Step(writer, node, "Mul", {Step(writer, node, "Mul", {x, number(0.044715)}), x});
  const std::string factor = Step(writer, node, "Add", {square, number(1)});
  const std::string linear = Step(writer, node, "Mul", {x, number(std::sqrt(2 / std::numbers::pi))});
  const std::string scaled = Step(writer, node, "Mul", {linear, factor});
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

// Before opset 18: x * tanh(softplus(x))
void Mish(OnnxWriter& writer, const ExportedNode& node) {
  if (writer.opset() >= 18) return Same(writer, node);
  const std::string softplus = Step(writer, node, "Softplus", node.inputs);
  writer.AddNode("Mul", {node.inputs[0], Step(writer, node, "Tanh", {softplus})}, node.outputs);
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
  const char* direction = node.node.op == ops::ShiftLeft() ? "LEFT" : "RIGHT";
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

// ---------------------------------------------------------------- convolutions, pools, contractions

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
  if (node.node.op == ops::MaxPool2d()) {
    writer.SetInts(pool, "dilations", node.Ints("dilations"));
  } else {
    writer.SetInt(pool, "count_include_pad", node.Int("count_include_pad"));
  }
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
  const OpDef* op = node.node.op;
  const TensorType& type = node.operand_types[0];
  return (op == ops::ReduceMean() || op == ops::ReduceMax()) && type.rank() == 4 && IsFloating(type.dtype) &&
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
  const bool all = node.node.op == ops::ReduceAnd();
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

// ---------------------------------------------------------------- shapes

// Reshape and Expand.
void ToShape(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode(FormOf(node).op_type, {node.inputs[0], writer.Ints(node.Ints("shape"))}, node.outputs);
}

void Blocks(OnnxWriter& writer, const ExportedNode& node) {
  onnx::NodeProto* blocks = writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs);
  writer.SetInt(blocks, "blocksize", node.Int("block"));
  if (node.node.op == ops::DepthToSpace()) {
    writer.SetString(blocks, "mode", node.Int("channel_first") != 0 ? "CRD" : "DCR");
  }
}

const absl::flat_hash_map<std::string, OnnxForm>& Forms() {
  static const auto* const forms = new absl::flat_hash_map<std::string, OnnxForm>{
      {"identity", {Same, "Identity"}},
      {"rsqrt", {Rsqrt}},
      {"relu", {Relu}},
      {"clip", {Clip}},
      {"gelu", {Gelu, "Gelu"}},
      {"gelu_tanh", {GeluTanh}},
      {"swish", {Swish}},
      {"hard_swish", {HardSwish, "HardSwish"}},
      {"mish", {Mish, "Mish"}},
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
      {"concat", {AlongAxis, "Concat"}},
      {"reshape", {ToShape, "Reshape"}},
      {"expand", {ToShape, "Expand"}},
      {"gather", {AlongAxis, "Gather"}},
      {"gather_elements", {AlongAxis, "GatherElements"}},
      {"depth_to_space", {Blocks, "DepthToSpace"}},
      {"space_to_depth", {Blocks, "SpaceToDepth"}},
  };
  return *forms;
}

// Of the functions that import and export have in common.
const absl::flat_hash_map<std::string, OnnxForm>& FunctionForms() {
  static const auto* const forms = [] {
    auto* table = new absl::flat_hash_map<std::string, OnnxForm>;
    for (const OnnxFunction& f : OnnxFunctions()) table->emplace(f.op, OnnxForm{Function, f.op_type});
    return table;
  }();
  return *forms;
}

}  // namespace

const OnnxForm* FindOnnxForm(const std::string& op) {
  for (const auto* forms : {&Forms(), &FunctionForms(), &MovementForms(), &TrainingForms()}) {
    if (const auto found = forms->find(op); found != forms->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace rewright
