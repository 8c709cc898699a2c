// Operators that training adds: dropout, and losses of labels.
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// Returns one element of an input that must be known.
double NumberInput(OnnxNode& node, int i, const std::string& name) {
  const Tensor tensor = node.ConstantInput(i, name);
  if (tensor.num_elements() == 1) return tensor.At(0);
  node.Fail(InvalidArgument("input ", name, " is ", tensor.type().ToString(), "; expected one element"));
  return 0;
}

// Returns the share of elements that are dropped; 0 if none are.
absl::StatusOr<double> DroppedShare(OnnxNode& node) {
  node.Ignore({"ratio", "seed"});  // before opset 12 dropout is one of inference; a run has a seed of its own
  if (!node.has_input(2)) return 0;
  const double training = NumberInput(node, 2, "training_mode");
  if (training == 0 || node.training() == OnnxTraining::kOff) return 0;
  if (!node.has_input(1)) return 0.5;
  const double ratio = NumberInput(node, 1, "ratio");
  if (!(ratio >= 0 && ratio < 1)) {
    return InvalidArgument("ratio ", ratio, "; expected 0 or more, and less than 1");
  }
  return ratio;
}

// y = 0 if a random number is less than the ratio, else x / (1 - ratio); the mask tells the latter. For inference y =
// x, and the mask is true everywhere.
Values Dropout(OnnxNode& node) {
  const Value x = node.input(0);
  ASSIGN_OR_RETURN(const double ratio, DroppedShare(node));
  if (ratio == 0) {
    if (!node.wants_output(1)) return std::vector<Value>{x};
    const DType mask_type = node.opset() < 10 ? node.type(x).dtype : DType::kBool;
    return std::vector<Value>{x, node.Expand(node.Number(mask_type, 1), node.shape(x))};
  }
  if (node.training() == OnnxTraining::kAsWritten) {
    return Unimplemented("training_mode = true, except in `rewright train`");
  }
  const Value random = node.Random(node.shape(x));
  const Value dropped = node("less", {random, node.Number(DType::kFloat32, ratio)});
  const Value scaled = node("mul", {x, node.Number(x, 1 / (1 - ratio))});
  const Value y = node("where", {dropped, node.Number(x, 0), scaled});
  return std::vector<Value>{y, node("logical_not", {dropped})};
}

// The common part of the losses. Each label gives its weight times the negative logarithm of its class, or 0 if it is
// ignored. `mean` divides the sum by the sum of the weights of the labels that count; a weight that is not given is 1.
Values LabelLoss(OnnxNode& node, Value logs) {
  const std::string reduction = node.String("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return InvalidArgument("attribute reduction is \"", reduction, "\"; expected none, sum or mean");
  }
  const Value labels = node.input(1);
  const TensorType& type = node.type(logs);
  Shape column = type.shape;  // of the labels, with an axis of size one in the place of the classes
  if (column.size() < 2 || !IsInteger(node.type(labels).dtype)) {
    return InvalidArgument("operands ", type.ToString(), " and ", node.type(labels).ToString(),
                           "; expected [n, classes, ..] and integers [n, ..]");
  }
  const int64_t classes = column[1];
  column.erase(column.begin() + 1);
  if (node.shape(labels) != column) {
    return InvalidArgument("labels ", node.type(labels).ToString(), " for ", type.ToString(), "; expected ",
                           ShapeString(column));
  }
  column.insert(column.begin() + 1, 1);
  Shape row(column.size(), 1);
  row[1] = classes;

  const DType integer = node.type(labels).dtype;
  const Value label = node("reshape", {labels}, {{"shape", column}});
  const Value numbers = node("iota", {}, {{"shape", row}, {"axis", int64_t{1}}, {"dtype", integer}});
  Value counts = node("equal", {label, numbers});
  if (node.HasAttribute("ignore_index")) {
    const int64_t ignored = node.Int("ignore_index");
    counts =
        node("logical_and", {counts, node("logical_not", {node("equal", {label, node.Number(integer, ignored)})})});
  }
  Value weight = node.Number(logs, 1);
  if (node.has_input(2)) {
    if (node.shape(node.input(2)) != Shape{classes}) {
      return InvalidArgument("weights ", node.input_type(2).ToString(), "; expected one a class");
    }
    weight = node.Reshape(node.input(2), row);
  }
  const Value zero = node.Number(logs, 0);
  const Attrs by_class = {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}};
  const Value terms = node("where", {counts, node.has_input(2) ? node("mul", {weight, logs}) : logs, zero});
  const Value losses = node("neg", {node("reduce_sum", {terms}, by_class)});
  if (reduction == "none") return OneOutput(losses);
  const Attrs all = {{"axes", AxesFrom(0, std::ssize(column) - 1)}, {"keepdims", int64_t{0}}};
  const Value sum = node("reduce_sum", {losses}, all);
  if (reduction == "sum") return OneOutput(sum);
  if (!node.has_input(2) && !node.HasAttribute("ignore_index")) return OneOutput(node("reduce_mean", {losses}, all));
  const Value weights = node("reduce_sum", {node("where", {counts, weight, zero})}, by_class);
  return OneOutput(node("div", {sum, node("reduce_sum", {weights}, all)}));
}

Values NegativeLogLikelihood(OnnxNode& node) { return LabelLoss(node, node.input(0)); }

// SoftmaxCrossEntropyLoss, computed from the stable logarithm of softmax, which is the optional second output.
Values SoftmaxCrossEntropy(OnnxNode& node) {
  if (node.input_rank(0) < 2) return InvalidArgument("operand 0 has no axis of classes");
  const Value logs = node("log_softmax", {node.input(0)}, {{"axis", int64_t{1}}});
  ASSIGN_OR_RETURN(std::vector<Value> results, LabelLoss(node, logs));
  results.push_back(logs);
  return results;
}

}  // namespace

OnnxOperatorList TrainingOperators() {
  return {
      {"Dropout", {7, 22, 1, 3, Dropout}},
      {"NegativeLogLikelihoodLoss", {12, 22, 2, 3, NegativeLogLikelihood}},
      {"SoftmaxCrossEntropyLoss", {12, 13, 2, 3, SoftmaxCrossEntropy}},
  };
}

}  // namespace rewright
