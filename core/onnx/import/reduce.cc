// Reductions over axes.
#include <limits>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// Axes became an input in opset 13 for ReduceSum and in opset 18 for the others. No axes mean all of them, or with
// noop_with_empty_axes none.
absl::StatusOr<Attrs> ReductionAttrs(OnnxNode& node) {
  const int rank = node.input_rank(0);
  const bool keepdims = node.Flag("keepdims", true);
  const int64_t input_since = node.op_type() == "ReduceSum" ? 13 : 18;
  const bool noop = node.opset() >= input_since && node.Flag("noop_with_empty_axes");
  const auto given = AxesOf(node, input_since);
  std::vector<int64_t> axes;
  if (given && !given->empty()) {
    ASSIGN_OR_RETURN(axes, OnnxNode::Axes(*given, rank));
  } else if (!noop) {
    axes = AxesFrom(0, rank);
  }
  return Attrs{{"axes", axes}, {"keepdims", int64_t{keepdims}}};
}

Values Reduce(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  const Value x = node.input(0);
  if (std::get<std::vector<int64_t>>(attrs.at("axes")).empty()) return std::vector<Value>{x};
  if (node.type(x).dtype != DType::kBool) return OneOutput(node(node.op(), {x}, attrs));
  // The minimum of truth values is their conjunction.
  return OneOutput(node(node.op_type() == "ReduceMin" ? "reduce_and" : "reduce_or", {x}, attrs));
}

// Applies a function to the sum of x.
Values SumOf(OnnxNode& node, Value x, const char* after = nullptr) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  const Value sum = node("reduce_sum", {x}, attrs);
  return OneOutput(after == nullptr ? sum : node(after, {sum}));
}

Value Square(OnnxNode& node) { return node("mul", {node.input(0), node.input(0)}); }

Values ReduceL1(OnnxNode& node) { return SumOf(node, node("abs", {node.input(0)})); }
Values ReduceL2(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<Value> sum, SumOf(node, Square(node)));
  return OneOutput(NormOf(node, sum[0]));
}
Values ReduceSumSquare(OnnxNode& node) { return SumOf(node, Square(node)); }
Values ReduceLogSum(OnnxNode& node) { return SumOf(node, node.input(0), "log"); }

// m + log(sum of exp(x - m)) with the maximum m, so that nothing overflows. m = 0 if the maximum is infinite or NaN,
// which cannot be subtracted.
Values ReduceLogSumExp(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  const Value x = node.input(0);
  Attrs keep = attrs;
  keep["keepdims"] = int64_t{1};
  const Value max = node("reduce_max", {x}, keep);
  const Value is_finite = node("less", {node("abs", {max}), node.Number(x, std::numeric_limits<double>::infinity())});
  const Value shift = node("where", {is_finite, max, node.Number(x, 0)});
  const Value sum = node("reduce_sum", {node("exp", {node("sub", {x, shift})})}, attrs);
  RETURN_IF_ERROR(node.status());
  return OneOutput(node("add", {node.Reshape(shift, node.shape(sum)), node("log", {sum})}));
}

// Axis and options of CumSum and CumProd.
struct Course {
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
};
absl::StatusOr<Course> ReadCourse(OnnxNode& node) {
  const std::vector<int64_t> axes = node.IntsInput(1, "axis");
  if (axes.size() != 1) return InvalidArgument("axis has ", axes.size(), " elements, expected one");
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(axes[0], node.input_rank(0)));
  return Course{axis, node.Flag("exclusive"), node.Flag("reverse")};
}

Values CumSum(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Course course, ReadCourse(node));
  const Attrs attrs = {
      {"axis", course.axis}, {"exclusive", int64_t{course.exclusive}}, {"reverse", int64_t{course.reverse}}};
  return OneOutput(node("cumsum", {node.input(0)}, attrs));
}

// Products of the elements up to each position: after the step of distance d each holds the product of the last 2 d.
Values CumProd(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Course course, ReadCourse(node));
  const auto at = static_cast<size_t>(course.axis);
  const int64_t size = node.shape(node.input(0))[at];
  // Shifts by `distance`; ones fill the gap.
  const auto shifted = [&](Value x, int64_t distance) {
    std::vector<int64_t> before(node.shape(x).size(), 0), after = before;
    before[at] = course.reverse ? -distance : distance;
    after[at] = -before[at];
    return node("pad", {x}, {{"before", before}, {"after", after}, {"value", 1.0}});
  };
  Value x = node.input(0);
  if (course.exclusive) x = shifted(x, 1);
  for (int64_t distance = 1; distance < size; distance *= 2) {
    x = node("mul", {x, shifted(x, distance)});
  }
  return std::vector<Value>{x};
}

// ArgMax and ArgMin, the first or the last of equal elements. The minimum is the maximum of the negatives; for
// integers, of those with inverted bits, since not all integers have a negative.
Values ArgMax(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.AxisAttribute(0, node.input_rank(0)));
  const Value x = node.input(0);
  const Attrs attrs = {{"axis", axis}, {"keepdims", int64_t{node.Flag("keepdims", true)}}};
  const bool turned = IsInteger(node.type(x).dtype);
  const Value y = node.op_type() != "ArgMin" ? x : turned ? node("bit_xor", {x, node.Number(x, -1)}) : node("neg", {x});
  if (!node.Flag("select_last_index")) return OneOutput(node("argmax", {y}, attrs));
  const Value from_end = node("argmax", {node("reverse", {y}, {{"axes", std::vector<int64_t>{axis}}})}, attrs);
  const double size = static_cast<double>(node.shape(x)[axis]);
  return OneOutput(node("sub", {node.Number(DType::kInt64, size - 1), from_end}));
}

}  // namespace

std::optional<std::vector<int64_t>> AxesOf(OnnxNode& node, int64_t input_since) {
  if (node.opset() >= input_since) {
    if (node.has_input(1)) return node.IntsInput(1, "axes");
  } else if (node.HasAttribute("axes")) {
    return node.Ints("axes");
  }
  return std::nullopt;
}

OnnxOperatorList ReduceOperators() {
  return {
      {"ReduceSum", {1, 13, 1, 2, Reduce, "reduce_sum"}},
      {"ReduceMean", {1, 18, 1, 2, Reduce, "reduce_mean"}},
      {"ReduceMax", {1, 20, 1, 2, Reduce, "reduce_max"}},
      {"ReduceMin", {1, 20, 1, 2, Reduce, "reduce_min"}},
      {"ReduceProd", {1, 18, 1, 2, Reduce, "reduce_prod"}},
      {"ReduceL1", {1, 18, 1, 2, ReduceL1}},
      {"ReduceL2", {1, 18, 1, 2, ReduceL2}},
      {"ReduceSumSquare", {1, 18, 1, 2, ReduceSumSquare}},
      {"ReduceLogSum", {1, 28, 1, 2, ReduceLogSum}},
      {"ReduceLogSumExp", {1, 28, 1, 2, ReduceLogSumExp}},
      {"CumSum", {11, 14, 2, 2, CumSum}},
      {"CumProd", {26, 26, 2, 2, CumProd}},
      {"ArgMax", {1, 13, 1, 1, ArgMax}},
      {"ArgMin", {1, 13, 1, 1, ArgMax}},
  };
}

}  // namespace rewright
