// The ONNX forms of operators that training and its gradients add.
#include "core/onnx/export/writer.h"

namespace rewright {
namespace {

// ONNX orders nodes by their reads alone.
void After(OnnxWriter& writer, const ExportedNode& node) { writer.AddNode("Identity", {node.inputs[0]}, node.outputs); }

// -log_softmax(x)[label]
void CrossEntropy(OnnxWriter& writer, const ExportedNode& node) {
  const std::string logs = Step(writer, node, "LogSoftmax", {node.inputs[0]}, AttrsOf(node));
  const std::string axis = writer.Ints({node.Int("axis")});
  const std::string labels = Step(writer, node, "Unsqueeze", {node.inputs[1], axis});
  const std::string picked = Step(writer, node, "GatherElements", {logs, labels}, AttrsOf(node));
  writer.AddNode("Neg", {Step(writer, node, "Squeeze", {picked, axis})}, node.outputs);
}

// Returns the mean over the batch and the points of each channel, and writes it as the vector `list`; the result
// broadcasts.
std::string MeanByChannel(OnnxWriter& writer, const ExportedNode& node, const std::string& x, const std::string& list) {
  const Shape& shape = node.operand_types[0].shape;
  std::vector<int64_t> axes = {0}, column(shape.size() - 1, 1);
  for (size_t axis = 2; axis < shape.size(); ++axis) axes.push_back(static_cast<int64_t>(axis));
  column[0] = shape[1];
  if (writer.opset() >= 18) {
    writer.AddNode("ReduceMean", {x, writer.Ints(axes)}, {list}, {{"keepdims", 0}});
  } else {
    writer.AddNode("ReduceMean", {x}, {list}, {{"axes", axes}, {"keepdims", 0}});
  }
  return Step(writer, node, "Reshape", {list, writer.Ints(column)});
}

// BatchNormalization in training mode would mix mean and variance with those of earlier batches.
void BatchNormTrain(OnnxWriter& writer, const ExportedNode& node) {
  const std::string& x = node.inputs[0];
  const std::string mean = MeanByChannel(writer, node, x, node.outputs[1]);
  const std::string shifted = Step(writer, node, "Sub", {x, mean});
  const std::string square = Step(writer, node, "Mul", {shifted, shifted});
  const std::string var = MeanByChannel(writer, node, square, node.outputs[2]);
  const std::string epsilon = writer.Number(node.type().dtype, node.Real("epsilon"));
  const std::string deviation = Step(writer, node, "Sqrt", {Step(writer, node, "Add", {var, epsilon})});
  std::vector<int64_t> column(node.type().shape.size() - 1, 1);
  column[0] = node.type().shape[1];
  const std::string scale = Step(writer, node, "Reshape", {node.inputs[1], writer.Ints(column)});
  const std::string bias = Step(writer, node, "Reshape", {node.inputs[2], writer.Ints(column)});
  const std::string normal = Step(writer, node, "Div", {shifted, deviation});
  writer.AddNode("Add", {Step(writer, node, "Mul", {normal, scale}), bias}, {node.outputs[0]});
}

// Adds u up at the positions of maxima that MaxPool gives: the first of equal ones, as here.
void MaxPool2dGradient(OnnxWriter& writer, const ExportedNode& node) {
  const std::string largest = writer.Temporary(node), places = writer.Temporary(node);
  writer.AddNode("MaxPool", {node.inputs[0]}, {largest, places}, AttrsOf(node));
  const std::string line = writer.Ints({-1});
  const std::string zeros =
      Step(writer, node, "Expand", {writer.Number(node.type().dtype, 0), writer.Ints({node.type().num_elements()})});
  const std::string sum = Step(
      writer, node, "ScatterElements",
      {zeros, Step(writer, node, "Reshape", {places, line}), Step(writer, node, "Reshape", {node.inputs[1], line})},
      {{"axis", 0}, {"reduction", "add"}});
  writer.AddNode("Reshape", {sum, writer.Ints(node.type().shape)}, node.outputs);
}

}  // namespace

const absl::flat_hash_map<std::string, OnnxForm>& TrainingForms() {
  static const auto* const forms = new absl::flat_hash_map<std::string, OnnxForm>{
      {"after", {After}},
      {"fetch", {After}},
      {"cross_entropy", {CrossEntropy}},
      {"batch_norm_train", {BatchNormTrain}},
      {"max_pool2d_grad_x", {MaxPool2dGradient, "", 16}},
  };
  return *forms;
}

}  // namespace rewright
