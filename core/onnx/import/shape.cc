// Operators that keep the order of elements and change the shape, and those that do nothing.
#include <algorithm>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

Values Identity(OnnxNode& node) { return std::vector<Value>{node.input(0)}; }

// Sizes of 0 keep the operand's (unless allowzero is set), and one of -1 takes the remaining elements.
Values Reshape(OnnxNode& node) {
  const bool allow_zero = node.opset() >= 14 && node.Flag("allowzero");
  const Value x = node.input(0);
  const Shape& old_shape = node.shape(x);
  const std::vector<int64_t> given = node.IntsInput(1, "shape");
  const auto bad = [&](const std::string& why) {
    return InvalidArgument("shape ", ShapeString(given), " for ", node.type(x).ToString(), ": ", why);
  };
  Shape shape = given;
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= old_shape.size()) return bad(absl::StrCat("there is no axis ", i, " to keep"));
      shape[i] = old_shape[i];
    } else if (shape[i] == -1) {
      if (open) return bad("-1 occurs twice");
      open = i;
      shape[i] = 1;
    } else if (shape[i] < 0) {
      return bad(absl::StrCat("size ", shape[i]));
    }
  }
  ASSIGN_OR_RETURN(const int64_t known, CheckedElements(shape));
  const int64_t elements = node.type(x).num_elements();
  if (open) {
    if (known == 0 || elements % known != 0) return bad("the sizes do not divide the number of elements");
    shape[*open] = elements / known;
  } else if (known != elements) {
    return bad("the numbers of elements differ");
  }
  return OneOutput(node.Reshape(x, shape));
}

Values Flatten(OnnxNode& node) {
  int64_t axis = node.Int("axis", 1);
  const Value x = node.input(0);
  const Shape& shape = node.shape(x);
  const int rank = node.type(x).rank();
  if (axis != rank) {
    ASSIGN_OR_RETURN(axis, OnnxNode::Axis(axis, rank));
  }
  ASSIGN_OR_RETURN(const Shape matrix, AsMatrix(shape, axis));
  return OneOutput(node.Reshape(x, matrix));
}

Values Squeeze(OnnxNode& node) {
  const Value x = node.input(0);
  const Shape& shape = node.shape(x);
  const auto given = AxesOf(node, 13);
  std::vector<int64_t> axes;
  if (given) {
    ASSIGN_OR_RETURN(axes, OnnxNode::Axes(*given, node.type(x).rank()));
  }
  Shape squeezed;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (named && shape[i] != 1) {
      return InvalidArgument("axis ", i, " of ", node.type(x).ToString(), " has not size one");
    }
    if (!named && (given || shape[i] != 1)) squeezed.push_back(shape[i]);
  }
  return OneOutput(node.Reshape(x, squeezed));
}

// Axes are counted in the result.
Values Unsqueeze(OnnxNode& node) {
  const Value x = node.input(0);
  const Shape& shape = node.shape(x);
  const auto given = AxesOf(node, 13);
  if (!given) return InvalidArgument("axes are missing");
  const size_t rank = shape.size() + given->size();
  if (rank > kMaxRank) return InvalidArgument("the result would have ", rank, " axes");
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, OnnxNode::Axes(*given, static_cast<int>(rank)));
  Shape unsqueezed;
  auto next = shape.begin();
  for (size_t i = 0; i < rank; ++i) {
    const bool added = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    unsqueezed.push_back(added ? 1 : *next++);
  }
  return OneOutput(node.Reshape(x, unsqueezed));
}

}  // namespace

absl::StatusOr<Shape> AsMatrix(const Shape& shape, int64_t axis) {
  const auto at = shape.begin() + axis;
  ASSIGN_OR_RETURN(const int64_t rows, CheckedElements(Shape(shape.begin(), at)));
  ASSIGN_OR_RETURN(const int64_t columns, CheckedElements(Shape(at, shape.end())));
  return Shape{rows, columns};
}

OnnxOperatorList ShapeOperators() {
  return {
      {"Identity", {1, 25, 1, 1, Identity}},   {"Reshape", {5, 25, 2, 2, Reshape}},
      {"Flatten", {1, 25, 1, 1, Flatten}},     {"Squeeze", {1, 25, 1, 2, Squeeze}},
      {"Unsqueeze", {1, 25, 1, 2, Unsqueeze}},
  };
}

}  // namespace rewright
