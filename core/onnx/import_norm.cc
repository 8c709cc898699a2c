// Normalizations and softmax.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

constexpr double kEpsilon = 1e-5f;

std::vector<int64_t> AxesFrom(int64_t axis, int rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank - axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

// What normalizations are made of, over `axes` of x.
struct Moments {
  Value mean, centered, variance;
};
Moments MomentsOf(Formula& f, Value x, const std::vector<int64_t>& axes) {
  const Attrs over = {{"axes", axes}, {"keepdims", int64_t{1}}};
  Moments moments;
  moments.mean = f("reduce_mean", {x}, over);
  moments.centered = f("sub", {x, moments.mean});
  moments.variance = f("reduce_mean", {f("mul", {moments.centered, moments.centered})}, over);
  return moments;
}

// By mean and variance of the batch, and the running averages behind it: momentum * average + (1 - momentum) * batch.
// In a step of training these are the next values of the averages.
Values TrainingBatchNorm(OnnxNode& node, double epsilon, double momentum) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  if (rank < 2) return node.Invalid(absl::StrCat("operand ", node.type(x).ToString(), "; expected [n, c, ..]"));
  std::vector<int64_t> axes = AxesFrom(1, rank);
  axes[0] = 0;
  const Shape channels = {node.shape(x)[1]};
  Formula f(node);
  const Moments moments = MomentsOf(f, x, axes);
  std::vector<Value> statistics, results(1);
  for (const auto& [input, moment] : {std::pair(3, moments.mean), std::pair(4, moments.variance)}) {
    const bool keeps = node.training() == OnnxTraining::kStep;
    ASSIGN_OR_RETURN(const Value average, keeps ? node.StateInput(input) : node.input(input));
    if (node.shape(average) != channels) {
      return node.Invalid(absl::StrCat("running averages ", node.type(average).ToString(), "; expected ", channels[0],
                                       " elements, one a channel"));
    }
    ASSIGN_OR_RETURN(const Value statistic, f.Done(f("reshape", {moment}, {{"shape", channels}})));
    ASSIGN_OR_RETURN(const Value batch, node.CastTo(statistic, node.type(average).dtype));
    const Value old_part = f("mul", {f.Number(average, momentum), node.Latest(average)});
    const Value new_part = f("mul", {f.Number(average, 1 - momentum), batch});
    ASSIGN_OR_RETURN(const Value next, f.Done(f("add", {old_part, new_part})));
    if (keeps) node.SetLatest(average, next);
    statistics.push_back(statistic);
    results.push_back(next);
  }
  std::vector<Value> operands = {x};
  for (int i : {1, 2}) {
    ASSIGN_OR_RETURN(const Value operand, node.CastTo(node.input(i), node.type(x).dtype));
    operands.push_back(operand);
  }
  operands.insert(operands.end(), statistics.begin(), statistics.end());
  ASSIGN_OR_RETURN(results[0], node.Apply("batch_norm", operands, {{"epsilon", epsilon}}));
  return results;
}

Values BatchNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kEpsilon));
  ASSIGN_OR_RETURN(const int64_t training, node.Int("training_mode", 0));
  ASSIGN_OR_RETURN(const int64_t spatial, node.Int("spatial", 1));
  ASSIGN_OR_RETURN(const double momentum, node.Float("momentum", 0.9f));
  if (spatial == 0) return node.Unsupported("spatial = 0");
  if (training != 0 && node.training() != OnnxTraining::kOff) return TrainingBatchNorm(node, epsilon, momentum);
  std::vector<Value> operands = node.inputs();
  if (training != 0) {  // the averages that training has left
    for (int i : {3, 4}) {
      ASSIGN_OR_RETURN(operands[i], node.StateInput(i));
    }
  }
  const std::vector<Value> averages = {operands[3], operands[4]};
  for (Value& operand : operands) {
    ASSIGN_OR_RETURN(operand, node.CastTo(operand, node.input_type(0).dtype));
  }
  ASSIGN_OR_RETURN(const Value y, node.Apply("batch_norm", operands, {{"epsilon", epsilon}}));
  return training != 0 ? std::vector<Value>{y, averages[0], averages[1]} : std::vector<Value>{y};
}

// Optional outputs: the mean and the inverse of the deviation.
Values LayerNormalization(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(given_axis, rank));
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kEpsilon));
  node.Ignore({"stash_type"});  // of 16-bit types
  const Shape inner(node.shape(x).begin() + axis, node.shape(x).end());
  const auto parameter = [&](Value given) -> absl::StatusOr<Value> {
    // A parameter may have fewer axes, or more of size one, than those that are normalized.
    Shape shape = node.shape(given);
    while (shape.size() > inner.size() && shape[0] == 1) shape.erase(shape.begin());
    ASSIGN_OR_RETURN(const Value trimmed, node.Reshape(given, shape));
    return node.Expand(trimmed, inner);
  };
  ASSIGN_OR_RETURN(const Value scale, parameter(node.input(1)));
  const Value given_bias = node.has_input(2) ? node.input(2) : node.Number(node.type(x).dtype, 0);
  ASSIGN_OR_RETURN(const Value bias, parameter(given_bias));
  ASSIGN_OR_RETURN(const Value y, node.Apply("layer_norm", {x, scale, bias}, {{"axis", axis}, {"epsilon", epsilon}}));
  if (!node.wants_output(1) && !node.wants_output(2)) return std::vector<Value>{y};
  Formula f(node);
  const Moments moments = MomentsOf(f, x, AxesFrom(axis, rank));
  const Value deviation = f("rsqrt", {f("add", {moments.variance, f.Number(x, epsilon)})});
  RETURN_IF_ERROR(f.Done(deviation).status());
  return std::vector<Value>{y, moments.mean, deviation};
}

// A value of one axis as [1, c, 1..] for an operand of that rank.
absl::StatusOr<Value> PerChannel(OnnxNode& node, Value value, int64_t channels, int rank) {
  if (node.shape(value) != Shape{channels}) {
    return absl::InvalidArgumentError(
        absl::StrCat("a parameter of shape ", ShapeString(node.shape(value)), "; expected [", channels, "]"));
  }
  Shape shape(static_cast<size_t>(rank), 1);
  shape[1] = channels;
  return node.Reshape(value, shape);
}

Values InstanceNormalization(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kEpsilon));
  if (rank < 3) return node.Invalid(absl::StrCat("operand ", node.type(x).ToString(), "; expected [n, c, spatial..]"));
  ASSIGN_OR_RETURN(const Value scale, PerChannel(node, node.input(1), node.shape(x)[1], rank));
  ASSIGN_OR_RETURN(const Value bias, PerChannel(node, node.input(2), node.shape(x)[1], rank));
  Formula f(node);
  const Moments moments = MomentsOf(f, x, AxesFrom(2, rank));
  const Value deviation = f("sqrt", {f("add", {moments.variance, f.Number(x, epsilon)})});
  return f.Output(f("add", {f("mul", {f("div", {moments.centered, deviation}), scale}), bias}));
}

// Groups of channels are normalized together. Before opset 21 scale and bias had one element per group.
Values GroupNormalization(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kEpsilon));
  ASSIGN_OR_RETURN(const int64_t groups, node.Int("num_groups", std::nullopt));
  node.Ignore({"stash_type"});
  if (rank < 2) return node.Invalid(absl::StrCat("operand ", node.type(x).ToString(), "; expected [n, c, ..]"));
  const Shape shape = node.shape(x);
  const int64_t channels = shape[1];
  if (groups < 1 || channels % groups != 0 || node.type(x).num_elements() == 0) {
    return node.Invalid(absl::StrCat(groups, " groups of ", channels, " channels"));
  }
  const auto parameter = [&](Value value) -> absl::StatusOr<Value> {
    if (node.opset() < 21) {
      if (node.shape(value) != Shape{groups}) {
        return node.Invalid(absl::StrCat("a parameter ", node.type(value).ToString(), "; expected [", groups, "]"));
      }
      ASSIGN_OR_RETURN(const Value column, node.Reshape(value, {groups, 1}));
      ASSIGN_OR_RETURN(const Value repeated, node.Expand(column, {groups, channels / groups}));
      ASSIGN_OR_RETURN(value, node.Reshape(repeated, {channels}));
    }
    return PerChannel(node, value, channels, rank);
  };
  ASSIGN_OR_RETURN(const Value scale, parameter(node.input(1)));
  ASSIGN_OR_RETURN(const Value bias, parameter(node.input(2)));
  const int64_t per_group = node.type(x).num_elements() / shape[0] / groups;
  ASSIGN_OR_RETURN(const Value grouped, node.Reshape(x, {shape[0], groups, per_group}));
  Formula f(node);
  const Moments moments = MomentsOf(f, grouped, {2});
  const Value deviation = f("sqrt", {f("add", {moments.variance, f.Number(x, epsilon)})});
  const Value normalized = f("reshape", {f("div", {moments.centered, deviation})}, {{"shape", shape}});
  return f.Output(f("add", {f("mul", {normalized, scale}), bias}));
}

Values RmsNormalization(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(given_axis, rank));
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kEpsilon));
  node.Ignore({"stash_type"});
  return OneOutput(RmsNormalized(node, x, node.input(1), axis, epsilon));
}

Values Lrn(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1e-4f));
  ASSIGN_OR_RETURN(const double beta, node.Float("beta", 0.75));
  ASSIGN_OR_RETURN(const double bias, node.Float("bias", 1));
  ASSIGN_OR_RETURN(const int64_t size, node.Int("size", std::nullopt));
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("size", {size}));
  return OneOutput(
      node.Apply("lrn", {node.input(0)}, {{"alpha", alpha}, {"beta", beta}, {"bias", bias}, {"size", size}}));
}

// x over its norm along an axis: the sum of absolute values, or the root of the sum of squares.
Values LpNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t p, node.Int("p", 2));
  if (p != 1 && p != 2) return node.Invalid(absl::StrCat("attribute p is ", p, "; expected 1 or 2"));
  const Value x = node.input(0);
  const Attrs over = {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}};
  Formula f(node);
  const Value sum = f("reduce_sum", {p == 1 ? f("abs", {x}) : f("mul", {x, x})}, over);
  const Value norm = p == 1 ? sum : f("sqrt", {sum});
  // All zeros stay zeros.
  const Value zero = f.Number(x, 0);
  return f.Output(f("where", {f("equal", {norm, zero}), zero, f("div", {x, norm})}));
}

// Softmax and LogSoftmax. Before opset 13 all axes from `axis` (default 1) on were one.
Values Softmax(OnnxNode& node) {
  const Value x = node.input(0);
  const int rank = node.type(x).rank();
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", node.opset() < 13 ? 1 : -1));
  if (node.opset() >= 13) return OneOutput(node.Apply(node.op(), {x}, {{"axis", given_axis}}));
  const Shape shape = node.shape(x);
  // The end is a legal axis here, too: one element each.
  int64_t axis = rank;
  if (given_axis != rank) {
    ASSIGN_OR_RETURN(axis, OnnxNode::Axis(given_axis, rank));
  }
  // Of the axes from `axis` on, at most one that is not of size one needs no reshape.
  const auto wide = [](int64_t size) { return size != 1; };
  const auto begin = shape.begin() + axis;
  if (axis < rank && std::count_if(begin, shape.end(), wide) <= 1) {
    const auto found = std::find_if(begin, shape.end(), wide);
    const int64_t only = found == shape.end() ? rank - 1 : found - shape.begin();
    return OneOutput(node.Apply(node.op(), {x}, {{"axis", only}}));
  }
  ASSIGN_OR_RETURN(const Shape flat, AsMatrix(shape, axis));
  ASSIGN_OR_RETURN(const Value rows, node.Reshape(x, flat));
  ASSIGN_OR_RETURN(const Value result, node.Apply(node.op(), {rows}, {{"axis", int64_t{1}}}));
  return OneOutput(node.Reshape(result, shape));
}

// (x - mean) / deviation over some axes, by default all but the channels.
Values MeanVarianceNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.Ints("axes", {0, 2, 3}));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, OnnxNode::Axes(given, node.input_rank(0)));
  Formula f(node);
  const Moments moments = MomentsOf(f, node.input(0), axes);
  const Value deviation = f("add", {f("sqrt", {moments.variance}), f.Number(node.input(0), 1e-9)});
  return f.Output(f("div", {moments.centered, deviation}));
}

}  // namespace

absl::StatusOr<Value> RmsNormalized(OnnxNode& node, Value x, Value scale, int64_t axis, double epsilon) {
  Formula f(node);
  const Attrs over = {{"axes", AxesFrom(axis, node.type(x).rank())}, {"keepdims", int64_t{1}}};
  const Value squares = f("reduce_mean", {f("mul", {x, x})}, over);
  const Value deviation = f("sqrt", {f("add", {squares, f.Number(x, epsilon)})});
  return f.Done(f("mul", {f("div", {x, deviation}), scale}));
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
