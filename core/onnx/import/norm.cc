// Normalizations and softmax.
#include <algorithm>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

constexpr double kEpsilon = 1e-5f;

// Mean, centered values and variance over `axes` of x, of which normalizations are made.
struct Moments {
  Value mean, centered, variance;
};
Moments MomentsOf(OnnxNode& node, Value x, const std::vector<int64_t>& axes) {
  const Attrs over = {{"axes", axes}, {"keepdims", int64_t{1}}};
  Moments moments;
  moments.mean = node("reduce_mean", {x}, over);
  moments.centered = node("sub", {x, moments.mean});
  moments.variance = node("reduce_mean", {node("mul", {moments.centered, moments.centered})}, over);
  return moments;
}

// Normalizes by mean and variance of the batch, and gives the running averages after it: momentum * average + (1 -
// momentum) * batch. In a training step these are the next values of the averages.
// In a step of training these are the next values of the averages.
Values TrainingBatchNorm(OnnxNode& node, double epsilon, double momentum) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  if (rank < 2) return InvalidArgument("operand ", node.type(x).ToString(), "; expected [n, c, ..]");
  std::vector<int64_t> axes = AxesFrom(1, rank);
  axes[0] = 0;
  const Shape channels = {node.shape(x)[1]};
  const Moments moments = MomentsOf(node, x, axes);
  std::vector<Value> statistics, results(1);
  for (const auto& [input, moment] : {std::pair(3, moments.mean), std::pair(4, moments.variance)}) {
    const bool keeps = node.training() == OnnxTraining::kStep;
    const Value average = keeps ? node.StateInput(input) : node.input(input);
    if (node.shape(average) != channels) {
      return InvalidArgument("running averages ", node.type(average).ToString(), "; expected ", channels[0],
                             " elements, one a channel");
    }
    const Value statistic = node("reshape", {moment}, {{"shape", channels}});
    const Value batch = node.CastTo(statistic, node.type(average).dtype);
    const Value old_part = node("mul", {node.Number(average, momentum), node.Latest(average)});
    const Value new_part = node("mul", {node.Number(average, 1 - momentum), batch});
    const Value next = node("add", {old_part, new_part});
    if (keeps) node.SetLatest(average, next);
    statistics.push_back(statistic);
    results.push_back(next);
  }
  std::vector<Value> operands = {x};
  for (int i : {1, 2}) operands.push_back(node.CastTo(node.input(i), node.type(x).dtype));
  operands.insert(operands.end(), statistics.begin(), statistics.end());
  results[0] = node("batch_norm", operands, {{"epsilon", epsilon}});
  return results;
}

Values BatchNormalization(OnnxNode& node) {
  const double epsilon = node.Float("epsilon", kEpsilon);
  const bool training = node.Flag("training_mode");
  const double momentum = node.Float("momentum", 0.9f);
  if (!node.Flag("spatial", true)) return Unimplemented("spatial = 0");
  if (training && node.training() != OnnxTraining::kOff) return TrainingBatchNorm(node, epsilon, momentum);
  std::vector<Value> operands = node.inputs();
  if (training) {  // the averages that training has left
    for (int i : {3, 4}) operands[i] = node.StateInput(i);
  }
  const std::vector<Value> averages = {operands[3], operands[4]};
  for (Value& operand : operands) operand = node.CastTo(operand, node.input_type(0).dtype);
  const Value y = node("batch_norm", operands, {{"epsilon", epsilon}});
  return training ? std::vector<Value>{y, averages[0], averages[1]} : std::vector<Value>{y};
}

// Gives the optional outputs: the mean and the inverse of the deviation.
Values LayerNormalization(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(-1, rank));
  const double epsilon = node.Float("epsilon", kEpsilon);
  node.Ignore({"stash_type"});  // of 16-bit types
  const Shape inner(node.shape(x).begin() + axis, node.shape(x).end());
  const auto parameter = [&](Value given) {
    // A parameter may have fewer axes, or more of size one, than those that are normalized.
    Shape shape = node.shape(given);
    while (shape.size() > inner.size() && shape[0] == 1) shape.erase(shape.begin());
    return node.Expand(node.Reshape(given, shape), inner);
  };
  const Value scale = parameter(node.input(1));
  const Value bias = parameter(node.has_input(2) ? node.input(2) : node.Number(x, 0));
  const Value y = node("layer_norm", {x, scale, bias}, {{"axis", axis}, {"epsilon", epsilon}});
  if (!node.wants_output(1) && !node.wants_output(2)) return std::vector<Value>{y};
  const Moments moments = MomentsOf(node, x, AxesFrom(axis, rank));
  const Value deviation = node("rsqrt", {node("add", {moments.variance, node.Number(x, epsilon)})});
  return std::vector<Value>{y, moments.mean, deviation};
}

// Reshapes a vector to [1, c, 1..] for an operand of that rank.
Value PerChannel(OnnxNode& node, Value value, int64_t channels, int rank) {
  if (node.shape(value) != Shape{channels}) {
    return node.Fail(
        InvalidArgument("a parameter of shape ", ShapeString(node.shape(value)), "; expected [", channels, "]"));
  }
  Shape shape(static_cast<size_t>(rank), 1);
  shape[1] = channels;
  return node.Reshape(value, shape);
}

Values InstanceNormalization(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  const double epsilon = node.Float("epsilon", kEpsilon);
  if (rank < 3) return InvalidArgument("operand ", node.type(x).ToString(), "; expected [n, c, spatial..]");
  const Value scale = PerChannel(node, node.input(1), node.shape(x)[1], rank);
  const Value bias = PerChannel(node, node.input(2), node.shape(x)[1], rank);
  const Moments moments = MomentsOf(node, x, AxesFrom(2, rank));
  const Value deviation = node("sqrt", {node("add", {moments.variance, node.Number(x, epsilon)})});
  return OneOutput(node("add", {node("mul", {node("div", {moments.centered, deviation}), scale}), bias}));
}

// Normalizes groups of channels together. Before opset 21 scale and bias had one element per group.
Values GroupNormalization(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  const double epsilon = node.Float("epsilon", kEpsilon);
  const int64_t groups = node.Int("num_groups");
  node.Ignore({"stash_type"});
  if (rank < 2) return InvalidArgument("operand ", node.type(x).ToString(), "; expected [n, c, ..]");
  const Shape shape = node.shape(x);
  const int64_t channels = shape[1];
  if (groups < 1 || channels % groups != 0 || node.type(x).num_elements() == 0) {
    return InvalidArgument(groups, " groups of ", channels, " channels");
  }
  const auto parameter = [&](Value value) {
    if (node.opset() < 21) {
      if (node.shape(value) != Shape{groups}) {
        return node.Fail(InvalidArgument("a parameter ", node.type(value).ToString(), "; expected [", groups, "]"));
      }
      value = node.Expand(node.Reshape(value, {groups, 1}), {groups, channels / groups});
      value = node.Reshape(value, {channels});
    }
    return PerChannel(node, value, channels, rank);
  };
  const Value scale = parameter(node.input(1));
  const Value bias = parameter(node.input(2));
  const int64_t per_group = node.type(x).num_elements() / shape[0] / groups;
  const Moments moments = MomentsOf(node, node.Reshape(x, {shape[0], groups, per_group}), {2});
  const Value deviation = node("sqrt", {node("add", {moments.variance, node.Number(x, epsilon)})});
  const Value normalized = node.Reshape(node("div", {moments.centered, deviation}), shape);
  return OneOutput(node("add", {node("mul", {normalized, scale}), bias}));
}

Values RmsNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(-1, node.input_rank(0)));
  node.Ignore({"stash_type"});
  return OneOutput(RmsNormalized(node, node.input(0), node.input(1), axis, node.Float("epsilon", kEpsilon)));
}

Values Lrn(OnnxNode& node) {
  const int64_t size = node.Int("size");
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("size", {size}));
  return OneOutput(node("lrn", {node.input(0)},
                        {{"alpha", node.Float("alpha", 1e-4f)},
                         {"beta", node.Float("beta", 0.75)},
                         {"bias", node.Float("bias", 1)},
                         {"size", size}}));
}

// x over its norm along an axis: the sum of absolute values, or the root of the sum of squares.
Values LpNormalization(OnnxNode& node) {
  const int64_t p = node.Int("p", 2);
  if (p != 1 && p != 2) return InvalidArgument("attribute p is ", p, "; expected 1 or 2");
  const Value x = node.input(0);
  const Attrs over = {{"axes", std::vector<int64_t>{node.Int("axis", -1)}}, {"keepdims", int64_t{1}}};
  const Value sum = node("reduce_sum", {p == 1 ? node("abs", {x}) : node("mul", {x, x})}, over);
  // An all-zero x gives zeros.
  const Value zero = node.Number(x, 0);
  Value norm = p == 1 ? sum : NormOf(node, sum);
  const Value none = node("equal", {norm, zero});
  if (node.differentiated()) norm = node("where", {none, node.Number(x, 1), norm});  // 0 / 0 would reach gradients
  return OneOutput(node("where", {none, zero, node("div", {x, norm})}));
}

// Softmax and LogSoftmax. Before opset 13 all axes from `axis` (default 1) on were joined to one.
Values Softmax(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  const int64_t given_axis = node.Int("axis", node.opset() < 13 ? 1 : -1);
  if (node.opset() >= 13) return OneOutput(node(node.op(), {x}, {{"axis", given_axis}}));
  const Shape shape = node.shape(x);
  // The end is a legal axis here, too: then each row has one element.
  int64_t axis = rank;
  if (given_axis != rank) {
    ASSIGN_OR_RETURN(axis, OnnxNode::Axis(given_axis, rank));
  }
  // No reshape is needed if at most one axis from `axis` on has a size other than one.
  const auto wide = [](int64_t size) { return size != 1; };
  const auto begin = shape.begin() + axis;
  if (axis < rank && std::count_if(begin, shape.end(), wide) <= 1) {
    const auto found = std::find_if(begin, shape.end(), wide);
    const int64_t only = found == shape.end() ? rank - 1 : found - shape.begin();
    return OneOutput(node(node.op(), {x}, {{"axis", only}}));
  }
  ASSIGN_OR_RETURN(const Shape flat, AsMatrix(shape, axis));
  return OneOutput(node.Reshape(node(node.op(), {node.Reshape(x, flat)}, {{"axis", int64_t{1}}}), shape));
}

// (x - mean) / deviation over some axes, by default all but the channels.
Values MeanVarianceNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, OnnxNode::Axes(node.Ints("axes", {0, 2, 3}), node.input_rank(0)));
  const Moments moments = MomentsOf(node, node.input(0), axes);
  const Value deviation = node("add", {node("sqrt", {moments.variance}), node.Number(node.input(0), 1e-9)});
  return OneOutput(node("div", {moments.centered, deviation}));
}

}  // namespace

Value RmsNormalized(OnnxNode& node, Value x, Value scale, int64_t axis, double epsilon) {
  const Attrs over = {{"axes", AxesFrom(axis, node.type(x).rank())}, {"keepdims", int64_t{1}}};
  const Value squares = node("reduce_mean", {node("mul", {x, x})}, over);
  const Value deviation = node("sqrt", {node("add", {squares, node.Number(x, epsilon)})});
  return node("mul", {node("div", {x, deviation}), scale});
}

OnnxOperatorList NormOperators() {
  return {
      {"MeanVarianceNormalization", {9, 13, 1, 1, MeanVarianceNormalization}},
      {"BatchNormalization", {7, 15, 5, 5, BatchNormalization}},
      {"LayerNormalization", {1, 17, 2, 3, LayerNormalization}},  // before opset 17 onnxruntime's own
      {"InstanceNormalization", {6, 22, 3, 3, InstanceNormalization}},
      {"GroupNormalization", {18, 21, 3, 3, GroupNormalization}},
      {"RMSNormalization", {23, 23, 2, 2, RmsNormalization}},
      {"SimplifiedLayerNormalization", {1, 1, 2, 2, RmsNormalization}},  // onnxruntime's, in ONNX's domain
      {"LpNormalization", {1, 22, 1, 1, LpNormalization}},
      {"LRN", {1, 13, 1, 1, Lrn}},
      {"Softmax", {1, 13, 1, 1, Softmax, "softmax"}},
      {"LogSoftmax", {1, 13, 1, 1, Softmax, "log_softmax"}},
  };
}

}  // namespace rewright
