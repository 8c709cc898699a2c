// Sums where data says, orders of elements, random numbers.
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// Adds, or where the indices are known and no two equal, replaces: what a later update does to an earlier one is open.
absl::StatusOr<bool> ReadsAdds(OnnxNode& node) {
  ASSIGN_OR_RETURN(const std::string reduction, node.String("reduction", "none"));
  if (reduction != "add" && reduction != "none") {
    return node.Unsupported(absl::StrCat("reduction = ", reduction, "; expected add or none"));
  }
  return reduction == "add";
}

// `op` adds updates to its first operand where indices say. Replacing is adding to zeros, at the places of a mask.
absl::StatusOr<Value> Scatter(OnnxNode& node, bool adds, const std::string& op, Value data, Value indices,
                              Value updates, const Attrs& attrs) {
  if (adds) return node.Apply(op, {data, indices, updates}, attrs);
  const TensorType type = node.type(data);
  RETURN_IF_ERROR(node.ConstantInput(1, "indices").status());
  if (type.dtype == DType::kBool) return node.Unsupported("reduction = none of truth values");
  RETURN_IF_ERROR(node.ChargeGenerated({DType::kInt64, type.shape}));
  Formula f(node);
  ASSIGN_OR_RETURN(const Value zeros, node.Expand(node.Number(DType::kInt64, 0), type.shape));
  ASSIGN_OR_RETURN(const Value ones, node.Expand(node.Number(DType::kInt64, 1), node.shape(updates)));
  const Value counts = f(op, {zeros, indices, ones}, attrs);
  RETURN_IF_ERROR(f.Done(counts).status());
  ASSIGN_OR_RETURN(const Tensor known, EvaluateWeightOnly(node.shared_arena(), counts));
  for (int64_t i = 0; i < known.num_elements(); ++i) {
    if (known.AtInt(i) > 1) return node.Unsupported("reduction = none at indices that are there twice");
  }
  ASSIGN_OR_RETURN(const Value empty, node.Expand(node.Number(type.dtype, 0), type.shape));
  const Value placed = f(op, {empty, indices, updates}, attrs);
  return f.Done(f("where", {f("equal", {node.Constant(known), f.Number(zeros, 1)}), placed, data}));
}

Values ScatterElements(OnnxNode& node) {
  ASSIGN_OR_RETURN(const bool adds, ReadsAdds(node));
  ASSIGN_OR_RETURN(const int64_t given_axis, node.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, OnnxNode::Axis(given_axis, node.input_rank(0)));
  RETURN_IF_ERROR(CheckIndices(node, node.input(1), axis));
  return OneOutput(
      Scatter(node, adds, "scatter_elements_add", node.input(0), node.input(1), node.input(2), {{"axis", axis}}));
}

// Of indices into the first axes, which are joined to one.
Values ScatterNd(OnnxNode& node) {
  ASSIGN_OR_RETURN(const bool adds, ReadsAdds(node));
  const Shape shape = node.input_type(0).shape;
  const Shape index_shape = node.input_type(1).shape;
  if (index_shape.empty()) return node.Invalid("the indices are a scalar");
  const int64_t count = index_shape.back();
  if (count < 1 || static_cast<size_t>(count) > shape.size()) {
    return node.Invalid(absl::StrCat("tuples of ", count, " indices into ", node.input_type(0).ToString()));
  }
  ASSIGN_OR_RETURN(const Value tuples, node.CastTo(node.input(1), DType::kInt64));
  ASSIGN_OR_RETURN(const Value indices, JoinIndices(node, tuples, shape, 0));
  Shape flat(shape.begin() + count, shape.end());
  int64_t joined = 1;
  for (int64_t k = 0; k < count; ++k) joined *= shape[static_cast<size_t>(k)];
  flat.insert(flat.begin(), joined);
  if (joined == 0) return node.Unsupported("indices into an empty tensor");
  ASSIGN_OR_RETURN(const Value data, node.Reshape(node.input(0), flat));
  ASSIGN_OR_RETURN(const Value y,
                   Scatter(node, adds, "scatter_add", data, indices, node.input(2), {{"axis", int64_t{0}}}));
  return OneOutput(node.Reshape(y, shape));
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
  const char* op = node.inputs().size() > 1 ? "random_uniform_from" : "random_uniform";
  return OneOutput(node.Apply(op, node.inputs(), {{"shape", shape}, {"stream", stream}}));
}

}  // namespace

OnnxOperatorList ScatterOperators() {
  return {
      {"Scatter", {9, 11, 3, 3, ScatterElements}},
      {"ScatterElements", {11, 18, 3, 3, ScatterElements}},
      {"ScatterND", {11, 18, 3, 3, ScatterNd}},
      {"TopK", {1, 24, 1, 2, TopK}},
      {absl::StrCat(kOwnDomain, ".RandomUniform"), {1, 1, 1, 2, RandomUniform}},
  };
}

}  // namespace rewright
