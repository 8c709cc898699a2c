// The ONNX forms of the operators of core/ops, from opset 13 on.
#include "core/ops/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/onnx/export/writer.h"
#include "core/onnx/functions.h"
#include "core/onnx/operators.h"
#include "core/onnx/proto.h"

namespace rewright {
namespace {

const OnnxForm& FormOf(const ExportedNode& node) { return *FindOnnxForm(node.node.op->name); }

// Writes the ONNX operator of the table's entry.
void Same(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode(FormOf(node).op_type, node.inputs, node.outputs, AttrsOf(node));
}

// Writes a reduction of opset 13, such as ReduceMin. The axes are an input of ReduceSum from opset 13 on, of the others
// from opset 18.
void WriteReduce(OnnxWriter& writer, const ExportedNode& node, const std::string& op_type, const std::string& input,
                 const std::string& output) {
  if (op_type == "ReduceSum" || writer.opset() >= 18) {
    writer.AddNode(op_type, {input, writer.Ints(node.Ints("axes"))}, {output}, {{"keepdims", node.Int("keepdims")}});
  } else {
    writer.AddNode(op_type, {input}, {output}, AttrsOf(node));
  }
}

// not (a = b)
void NotEqual(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("Not", {Step(writer, node, "Equal", node.inputs)}, node.outputs);
}

void Remainder(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("Mod", node.inputs, node.outputs, {{"fmod", node.node.op == ops::Rem() ? 1 : 0}});
}

// The operands are low, x, high.
void Clamp(OnnxWriter& writer, const ExportedNode& node) {
  const std::string raised = Step(writer, node, "Max", {node.inputs[1], node.inputs[0]});
  writer.AddNode("Min", {raised, node.inputs[2]}, node.outputs);
}

// Relu of opset 13 takes floating-point numbers only.
void Relu(OnnxWriter& writer, const ExportedNode& node) {
  const DType dtype = node.type().dtype;
  if (IsFloating(dtype)) return writer.AddNode("Relu", node.inputs, node.outputs);
  writer.AddNode("Max", {node.inputs[0], writer.Number(dtype, 0)}, node.outputs);
}

// Written as a quotient, not as Reciprocal: onnxruntime recognizes a norm by it.
void Rsqrt(OnnxWriter& writer, const ExportedNode& node) {
  const std::string root = Step(writer, node, "Sqrt", node.inputs);
  writer.AddNode("Div", {writer.Number(node.type().dtype, 1), root}, node.outputs);
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
// recognizes a form with the cube of x only if that is a Pow.
void GeluTanh(OnnxWriter& writer, const ExportedNode& node) {
  if (writer.opset() >= 20) return writer.AddNode("Gelu", node.inputs, node.outputs, {{"approximate", "tanh"}});
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

// The result is x in its own type.
void FinalCast(OnnxWriter& writer, const ExportedNode& node, const std::string& x) {
  writer.AddNode("Cast", {x}, node.outputs, {{"to", DTypeToOnnx(node.type().dtype)}});
}

void Cast(OnnxWriter& writer, const ExportedNode& node) { FinalCast(writer, node, node.inputs[0]); }

// BitShift takes unsigned integers, and shifts by fewer places than there are bits.
void Shift(OnnxWriter& writer, const ExportedNode& node) {
  const OnnxAttrs attrs = {{"direction", node.node.op == ops::ShiftLeft() ? "LEFT" : "RIGHT"}};
  const DType dtype = node.type().dtype;
  if (IsUnsigned(dtype)) return writer.AddNode("BitShift", node.inputs, node.outputs, attrs);
  DType without_sign = DType::kUInt64;
  for (DType candidate : kAllDTypes) {
    if (IsUnsigned(candidate) && BitsOf(candidate) == BitsOf(dtype)) without_sign = candidate;
  }
  const std::string bits = CastTo(writer, node, node.inputs[0], without_sign);
  const std::string places = CastTo(writer, node, node.inputs[1], without_sign);
  const std::string few = Step(writer, node, "Less", {places, writer.Number(without_sign, BitsOf(dtype))});
  const std::string none = writer.Number(without_sign, 0);
  const std::string by = Step(writer, node, "Where", {few, places, none});
  const std::string shifted = Step(writer, node, "BitShift", {bits, by}, attrs);
  FinalCast(writer, node, Step(writer, node, "Where", {few, shifted, none}));
}

// ---------------------------------------------------------------- convolutions, contractions

// Writes a node whose operands and result are cast to a type that ONNX's operator takes.
void ByWayOf(DType wide, OnnxWriter& writer, const ExportedNode& node, const std::string& op_type,
             const OnnxAttrs& attrs) {
  std::vector<std::string> inputs = node.inputs;
  for (std::string& input : inputs) input = CastTo(writer, node, input, wide);
  FinalCast(writer, node, Step(writer, node, op_type, inputs, attrs));
}

// Writes Conv; integers go by way of doubles, which hold every sum below 2^53.
void Conv(OnnxWriter& writer, const ExportedNode& node) {
  const Shape& w = node.operand_types[1].shape;
  OnnxAttrs attrs = AttrsOf(node);
  attrs.emplace_back("kernel_shape", Shape{w[2], w[3]});
  if (!IsFloating(node.type().dtype)) return ByWayOf(DType::kFloat64, writer, node, "Conv", attrs);
  writer.AddNode("Conv", node.inputs, node.outputs, attrs);
}

// Writes Conv, with a padded operand if Conv itself cannot pad that way.
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
  writer.AddNode("Conv", inputs, node.outputs,
                 {{"dilations", list("rhs_dilations", 1, axes)},
                  {"group", node.Int("groups")},
                  {"kernel_shape", Shape(w.begin() + 2, w.end())},
                  {"pads", pads},
                  {"strides", list("strides", 1, axes)}});
}

// Returns a letter for each pair of axes.
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
  const OnnxAttrs attrs = {{"equation", lhs + "," + rhs + "->" + out}};
  // Einsum does not take bfloat16.
  if (node.type().dtype == DType::kBFloat16) return ByWayOf(DType::kFloat32, writer, node, "Einsum", attrs);
  writer.AddNode("Einsum", node.inputs, node.outputs, attrs);
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
  if (node.Ints("axes").empty()) return writer.AddNode("Identity", node.inputs, node.outputs);
  if (IsGlobalPool(node)) {
    return writer.AddNode(op_type == "ReduceMean" ? "GlobalAveragePool" : "GlobalMaxPool", node.inputs, node.outputs);
  }
  WriteReduce(writer, node, op_type, node.inputs[0], node.outputs[0]);
}

// Writes a reduction of truth values. Any: the count of true elements is not 0. All: the count of false elements is 0.
void ReduceTruth(OnnxWriter& writer, const ExportedNode& node) {
  if (node.Ints("axes").empty()) return writer.AddNode("Identity", node.inputs, node.outputs);
  const bool all = node.node.op == ops::ReduceAnd();
  const std::string sought = all ? Step(writer, node, "Not", node.inputs) : node.inputs[0];
  const std::string count = writer.Temporary(node);
  WriteReduce(writer, node, "ReduceSum", CastTo(writer, node, sought, DType::kInt64), count);
  if (!all) return FinalCast(writer, node, count);
  writer.AddNode("Not", {CastTo(writer, node, count, DType::kBool)}, node.outputs);
}

// ---------------------------------------------------------------- shapes

// Reshape and Expand.
void ToShape(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode(FormOf(node).op_type, {node.inputs[0], writer.Ints(node.Ints("shape"))}, node.outputs);
}

void DepthToSpace(OnnxWriter& writer, const ExportedNode& node) {
  writer.AddNode("DepthToSpace", node.inputs, node.outputs,
                 {{"blocksize", node.Int("block")}, {"mode", node.Int("channel_first") != 0 ? "CRD" : "DCR"}});
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
      {"rem", {Remainder}},
      {"mod", {Remainder}},
      {"pow", {Same, "Pow"}},
      {"min", {Same, "Min"}},
      {"max", {Same, "Max"}},
      {"not_equal", {NotEqual}},
      {"greater", {Same, "Greater"}},
      {"greater_equal", {Same, "GreaterOrEqual"}},
      {"shift_left", {Shift}},
      {"shift_right", {Shift}},
      {"clamp", {Clamp}},
      {"matmul", {Same, "MatMul"}},
      {"dot_general", {DotGeneral}},
      {"conv2d", {Conv}},
      {"convolution", {GeneralConv}},
      {"max_pool2d", {Same, "MaxPool"}},
      {"avg_pool2d", {Same, "AveragePool"}},
      {"batch_norm", {Same, "BatchNormalization"}},
      {"layer_norm", {Same, "LayerNormalization", 17}},
      {"lrn", {Same, "LRN"}},
      {"softmax", {Same, "Softmax"}},
      {"log_softmax", {Same, "LogSoftmax"}},
      {"reduce_sum", {Reduce, "ReduceSum"}},
      {"reduce_mean", {Reduce, "ReduceMean"}},
      {"reduce_max", {Reduce, "ReduceMax"}},
      {"reduce_min", {Reduce, "ReduceMin"}},
      {"reduce_prod", {Reduce, "ReduceProd"}},
      {"reduce_and", {ReduceTruth}},
      {"reduce_or", {ReduceTruth}},
      {"argmax", {Same, "ArgMax"}},
      {"concat", {Same, "Concat"}},
      {"reshape", {ToShape, "Reshape"}},
      {"expand", {ToShape, "Expand"}},
      {"transpose", {Same, "Transpose"}},
      {"gather", {Same, "Gather"}},
      {"gather_elements", {Same, "GatherElements"}},
      {"depth_to_space", {DepthToSpace}},
      {"space_to_depth", {Same, "SpaceToDepth"}},
  };
  return *forms;
}

// The forms of the functions that import and export have in common.
const absl::flat_hash_map<std::string, OnnxForm>& FunctionForms() {
  static const auto* const forms = [] {
    auto* table = new absl::flat_hash_map<std::string, OnnxForm>;
    for (const OnnxFunction& f : OnnxFunctions()) table->emplace(f.op, OnnxForm{Same, f.op_type, f.first_opset});
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
