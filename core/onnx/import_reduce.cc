// Reductions over axes.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// Axes became an input in opset 13 for ReduceSum and in opset 18 for the others. No axes mean all of them, or with
// noop_with_empty_axes none.
absl::StatusOr<Attrs> ReductionAttrs(OnnxNode& node) {
  const int rank = node.input_rank(0);
  ASSIGN_OR_RETURN(const int64_t keepdims, node.Int("keepdims", 1));
  const int64_t input_since = node.op_type() == "ReduceSum" ? 13 : 18;
  int64_t noop = 0;
  if (node.opset() >= input_since) {
    ASSIGN_OR_RETURN(noop, node.Int("noop_with_empty_axes", 0));
  }
  ASSIGN_OR_RETURN(const auto given, AxesOf(node, input_since));
  std::vector<int64_t> axes;
  if (given && !given->empty()) {
    ASSIGN_OR_RETURN(axes, OnnxNode::Axes(*given, rank));
  } else if (noop == 0) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  return Attrs{{"axes", axes}, {"keepdims", int64_t{keepdims != 0}}};
}

Values Reduce(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  const Value x = node.input(0);
  if (std::get<std::vector<int64_t>>(attrs.at("axes")).empty()) return std::vector<Value>{x};
  if (node.type(x).dtype != DType::kBool) return OneOutput(node.Apply(node.op(), {x}, attrs));
  // The least of truth values is their conjunction.
  return OneOutput(node.Apply(node.op_type() == "ReduceMin" ? "reduce_and" : "reduce_or", {x}, attrs));
}

Values ReduceL1(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  Formula f(node);
  return f.Output(f("reduce_sum", {f("abs", {node.input(0)})}, attrs));
}

Values ReduceSumSquare(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  const Value x = node.input(0);
  Formula f(node);
  return f.Output(f("reduce_sum", {f("mul", {x, x})}, attrs));
}

Values ReduceL2(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  const Value x = node.input(0);
  Formula f(node);
  return f.Output(f("sqrt", {f("reduce_sum", {f("mul", {x, x})}, attrs)}));
}

Values ReduceLogSum(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Attrs attrs, ReductionAttrs(node));
  Formula f(node);
  return f.Output(f("log", {f("reduce_sum", {node.input(0)}, attrs)}));
}

// m + log(sum of exp(x - m)) with the maximum m, so that nothing overflows.
Values ReduceLogSumExp(OnnxNode& node) {
  ASSIGN_OR_RETURN(Attrs attrs, ReductionAttrs(node));
  const Value x = node.input(0);
  Formula f(node);
  Attrs keep = attrs;
  keep["keepdims"] = int64_t{1};
  const Value max = f("reduce_max", {x}, keep);
  const Value sum = f("reduce_sum", {f("exp", {f("sub", {x, max})})}, attrs);
  return f.Output(f("add", {f("reduce_max", {x}, attrs), f("log", {sum})}));
}

// What CumSum and CumProd run along.
struct Course {
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
};
absl::StatusOr<Course> ReadCourse(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.IntsInput(1, "axis"));
  if (axes.size() != 1) return node.Invalid(absl::StrCat("axis has ", axes.size(), " elements, expected one"));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(axes[0], node.input_rank(0)));
  ASSIGN_OR_RETURN(const int64_t exclusive, node.Int("exclusive", 0));
  ASSIGN_OR_RETURN(const int64_t reverse, node.Int("reverse", 0));
  return Course{axis, exclusive != 0, reverse != 0};
}

Values CumSum(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Course course, ReadCourse(node));
  const Attrs attrs = {
      {"axis", course.axis}, {"exclusive", int64_t{course.exclusive}}, {"reverse", int64_t{course.reverse}}};
  return OneOutput(node.Apply("cumsum", {node.input(0)}, attrs));
}

// Products of the elements up to each position: after the step of distance d each holds the last 2 d.
Values CumProd(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Course course, ReadCourse(node));
  const auto at = static_cast<size_t>(course.axis);
  const int64_t size = node.shape(node.input(0))[at];
  // The elements `distance` before, ones where there are none.
  const auto shifted = [&](Value x, int64_t distance) {
    std::vector<int64_t> before(node.shape(x).size(), 0), after = before;
    before[at] = course.reverse ? -distance : distance;
    after[at] = -before[at];
    return node.Apply("pad", {x}, {{"before", before}, {"after", after}, {"value", 1.0}});
  };
  Value x = node.input(0);
  if (course.exclusive) {
    ASSIGN_OR_RETURN(x, shifted(x, 1));
  }
  for (int64_t distance = 1; distance < size; distance *= 2) {
    ASSIGN_OR_RETURN(const Value earlier, shifted(x, distance));
    ASSIGN_OR_RETURN(x, node.Apply("mul", {x, earlier}));
  }
  return std::vector<Value>{x};
}

// ArgMax and ArgMin (of the negative), the first or the last of equal elements.
Values ArgMax(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(given_axis, node.input_rank(0)));
  ASSIGN_OR_RETURN(const int64_t keepdims, node.Int("keepdims", 1));
  ASSIGN_OR_RETURN(const int64_t last, node.Int("select_last_index", 0));
  const Value x = node.input(0);
  const Attrs attrs = {{"axis", axis}, {"keepdims", int64_t{keepdims != 0}}};
  Formula f(node);
  const Value y = node.op_type() == "ArgMin" ? f("neg", {x}) : x;
  if (last == 0) return f.Output(f("argmax", {y}, attrs));
  const Value from_end = f("argmax", {f("reverse", {y}, {{"axes", std::vector<int64_t>{axis}}})}, attrs);
  const double size = static_cast<double>(node.shape(x)[axis]);
  return f.Output(f("sub", {node.Number(DType::kInt64, size - 1), from_end}));
}

}  // namespace

absl::StatusOr<std::optional<std::vector<int64_t>>> AxesOf(OnnxNode& node, int64_t input_since) {
  std::optional<std::vector<int64_t>> axes;
  if (node.opset() >= input_since) {
    if (node.has_input(1)) {
      ASSIGN_OR_RETURN(axes, node.IntsInput(1, "axes"));
    }
  } else if (node.HasAttribute("axes")) {
    ASSIGN_OR_RETURN(axes, node.Ints("axes", {}));
  }
  return axes;
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
