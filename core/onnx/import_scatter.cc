// Sums where data says, orders of elements, random numbers.
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// The sum alone: what repeated indices give where a later update replaces an earlier one is open.
absl::Status CheckAdds(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::string reduction, node.String("reduction", "none"));
  if (reduction != "add") return node.Unsupported(absl::StrCat("reduction = ", reduction, "; expected add"));
  return absl::OkStatus();
}

Values ScatterElements(OnnxNode& node) {
  RETURN_IF_ERROR(CheckAdds(node));
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(given_axis, node.input_rank(0)));
  RETURN_IF_ERROR(CheckIndices(node, node.input(1), axis));
  return OneOutput(node.Apply("scatter_elements_add", node.inputs(), {{"axis", axis}}));
}

// Of indices into the first axis, which stand along an axis of size one of their own.
Values ScatterNd(OnnxNode& node) {
  RETURN_IF_ERROR(CheckAdds(node));
  Shape shape = node.input_type(1).shape;
  if (shape.empty()) return node.Invalid("the indices are a scalar");
  if (shape.back() != 1) return node.Unsupported(absl::StrCat("indices of ", shape.back(), " axes; expected one"));
  if (node.input_rank(0) == 0) return node.Invalid("indices into a scalar");
  RETURN_IF_ERROR(CheckIndices(node, node.input(1), 0));
  shape.pop_back();
  ASSIGN_OR_RETURN(const Value indices, node.Reshape(node.input(1), shape));
  return OneOutput(node.Apply("scatter_add", {node.input(0), indices, node.input(2)}, {{"axis", int64_t{0}}}));
}

// Unless they are asked for sorted, the elements may come in any order: ours are sorted.
Values TopK(OnnxNode& node) {
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(given_axis, node.input_rank(0)));
  int64_t k = 0, largest = 1;
  if (node.opset() >= 10) {
    if (!node.has_input(1)) return node.Invalid("k is missing");
    ASSIGN_OR_RETURN(const std::vector<int64_t> ks, node.IntsInput(1, "k"));
    if (ks.size() != 1) return node.Invalid(absl::StrCat("k has ", ks.size(), " elements, expected one"));
    k = ks[0];
  } else {
    ASSIGN_OR_RETURN(k, node.Int("k", std::nullopt));
  }
  if (node.opset() >= 11) {
    ASSIGN_OR_RETURN(largest, node.Int("largest", 1));
    node.Ignore({"sorted"});
  }
  return node.ApplyAll("top_k", {node.input(0)}, {{"axis", axis}, {"k", k}, {"largest", int64_t{largest != 0}}});
}

Values RandomUniform(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> shape, node.Ints("shape", {}));
  ASSIGN_OR_RETURN(const int64_t stream, node.Int("stream", 0));
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("shape", shape));
  return OneOutput(node.Apply("random_uniform", node.inputs(), {{"shape", shape}, {"stream", stream}}));
}

}  // namespace

OnnxOperatorList ScatterOperators() {
  return {
      {"ScatterElements", {16, 18, 3, 3, ScatterElements}},
      {"ScatterND", {16, 18, 3, 3, ScatterNd}},
      {"TopK", {1, 24, 1, 2, TopK}},
      {absl::StrCat(kOwnDomain, ".RandomUniform"), {1, 1, 1, 1, RandomUniform}},
  };
}

}  // namespace rewright
