#include "substitutions/generate/presets/choices.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rewright::generate {

Size Var(int variable) { return {variable, 0}; }
Size Num(int64_t number) { return {-1, number}; }

OperatorChoice Binary(const std::string& op) {
  return {.name = op, .op = op, .arity = 2, .commutative = true, .distinct = true, .same_shape = true};
}

OperatorChoice Ordered(const std::string& op) {
  return {.name = op, .op = op, .arity = 2, .distinct = true, .same_shape = true};
}

OperatorChoice Stretched(const std::string& op, std::vector<int> ranks) {
  return {.name = absl::StrCat(op, "_stretched"), .op = op, .arity = 2, .stretched = true, .ranks = std::move(ranks)};
}

OperatorChoice Unary(const std::string& op) { return {.name = op, .op = op}; }

OperatorChoice Scale() { return {.name = "scale", .op = "mul", .arity = 2, .distinct = true, .scalar_second = true}; }

OperatorChoice Matmul(std::vector<int> ranks) {
  const bool plain = ranks == std::vector<int>{2, 2};
  return {.name = plain ? "matmul" : absl::StrCat("matmul_", absl::StrJoin(ranks, "_"), "d"),
          .op = "matmul",
          .arity = 2,
          .distinct = true,
          .ranks = std::move(ranks)};
}

OperatorChoice Conv(int64_t r, int64_t s, bool relu, int64_t stride) {
  const std::vector<int64_t> pads = {(r - 1) / 2, (s - 1) / 2, r / 2, s / 2};
  OperatorChoice conv{
      .name = absl::StrCat("conv", r, "x", s, stride > 1 ? absl::StrCat("_by", stride) : "", relu ? "_relu" : ""),
      .op = "conv2d",
      .arity = 2,
      .attrs = {{"pads", pads}},
      .derived = Derived::kGroups,
      .then = relu ? "relu" : "",
      .no_kernel_input = true,
      .ranks = {4, 4},
      .kernel = {r, s}};
  if (stride > 1) conv.attrs["strides"] = std::vector<int64_t>{stride, stride};
  return conv;
}

OperatorChoice Pool(const std::string& op, int64_t stride) {
  OperatorChoice pool{.name = stride > 1 ? absl::StrCat(op, "_by", stride) : op,
                      .op = op,
                      .attrs = {{"kernel", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}},
                      .ranks = {4}};
  if (op == "avg_pool2d") pool.attrs["count_include_pad"] = int64_t{1};
  if (stride > 1) pool.attrs["strides"] = std::vector<int64_t>{stride, stride};
  return pool;
}

OperatorChoice Enlarge(int64_t r, int64_t s) {
  return {
      .name = "enlarge", .op = "pad", .derived = Derived::kEnlarge, .leaf_only = true, .ranks = {4}, .extent = {r, s}};
}

OperatorChoice Reduce(const std::string& op, int64_t axis) {
  return {.name = absl::StrCat(op, axis), .op = op, .attrs = {{"axes", std::vector<int64_t>{axis}}}};
}

OperatorChoice ReduceAway(const std::string& op, int64_t axis) {
  OperatorChoice reduce = Reduce(op, axis);
  reduce.name += "_away";
  reduce.attrs["keepdims"] = int64_t{0};
  return reduce;
}

OperatorChoice Concat(int rank, int64_t axis, int arity) {
  return {.name = absl::StrCat("concat", axis, "_", rank, "d", arity > 2 ? absl::StrCat("_of", arity) : ""),
          .op = "concat",
          .arity = arity,
          .attrs = {{"axis", axis}},
          .distinct = true,
          .ranks = std::vector<int>(static_cast<size_t>(arity), rank)};
}

OperatorChoice Split(int64_t axis, int parts) {
  return {.name = absl::StrCat("split", axis, parts > 2 ? absl::StrCat("_in", parts) : ""),
          .op = "split",
          .attrs = {{"axis", axis}},
          .derived = Derived::kParts,
          .parts = parts};
}

OperatorChoice FirstPart(int rank, int64_t axis) {
  return {
      .name = absl::StrCat("slice", axis), .op = "slice", .derived = Derived::kFirst, .ranks = {rank}, .axis = axis};
}

OperatorChoice Transpose(const std::vector<int64_t>& perm) {
  return {.name = absl::StrCat("transpose", absl::StrJoin(perm, "")),
          .op = "transpose",
          .attrs = {{"perm", perm}},
          .ranks = {static_cast<int>(perm.size())}};
}

OperatorChoice Reshape(const std::string& name, int rank, std::vector<Size> shape) {
  return {.name = name, .op = "reshape", .derived = Derived::kShape, .ranks = {rank}, .shape = std::move(shape)};
}

OperatorChoice Merge(const std::string& name, std::vector<std::vector<int>> axes, int rank) {
  return {.name = name, .op = "reshape", .derived = Derived::kMerge, .ranks = {rank}, .merged = std::move(axes)};
}

OperatorChoice Expand(const std::string& name, int rank, std::vector<Size> shape) {
  return {.name = name, .op = "expand", .derived = Derived::kShape, .ranks = {rank}, .shape = std::move(shape)};
}

OperatorChoice Pad(const std::string& name, const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  return {.name = name,
          .op = "pad",
          .attrs = {{"before", before}, {"after", after}},
          .ranks = {static_cast<int>(before.size())}};
}

OperatorChoice Constant(const std::string& name, OperatorChoice::Constant kind, std::vector<Size> shape,
                        int64_t numerator, int64_t denominator) {
  return {.name = name,
          .arity = 0,
          .constant = kind,
          .shape = std::move(shape),
          .numerator = numerator,
          .denominator = denominator};
}

Space Matrices(const std::string& name, std::vector<InputGroup> inputs, int max_ops, int max_outputs,
               std::vector<OperatorChoice> operators) {
  return {.name = name,
          .variables = {"b", "m", "k"},
          .inputs = std::move(inputs),
          .operators = std::move(operators),
          .max_ops = max_ops,
          .max_outputs = max_outputs,
          .assignments = {{3, 2, 4}, {2, 5, 3}},
          .confirmation = {{2, 7, 3}, {5, 3, 2}},
          .nominal = {2, 3, 4}};
}

Space Merges(Space space) {
  space.max_outputs = 2;
  space.merges_only = true;
  return space;
}

Space ScaledParts(const std::string& name, int parts, size_t axis, const std::vector<std::string>& axes,
                  const std::vector<std::vector<int64_t>>& others, int rank) {
  const int first = static_cast<int>(axes.size());  // of the variables: sizes of parts, and where the third one begins
  const std::vector<std::vector<int64_t>> sizes = {{5, 6, 7}, {4, 2, 6}, {3, 7, 4}, {5, 3, 2}, {3, 2, 4}};
  const auto assignment = [&](size_t number) {
    const std::vector<int64_t>& part = sizes[number];
    std::vector<int64_t> values = others[number];
    values.insert(values.begin() + static_cast<int64_t>(axis), part[0] + part[1] + (parts > 2 ? part[2] : 0));
    values.insert(values.end(), {part[0], part[1], part[2], part[0] + part[1]});
    return values;
  };
  InputGroup whole{.name = "x", .cut_axis = static_cast<int>(axis), .cuts = {Var(first)}};
  for (int k = 0; k < first; ++k) whole.shape.push_back(Var(k));
  if (parts > 2) whole.cuts.push_back(Var(first + 3));
  Space space{.name = name,
              .variables = axes,
              .inputs = {whole},
              .max_ops = parts + 1,
              .max_outputs = parts,
              .assignments = {assignment(0), assignment(1)},
              .confirmation = {assignment(2), assignment(3)},
              .nominal = assignment(4)};
  for (const char* part : {"p", "q", "r", "t"}) space.variables.push_back(part);
  const size_t at = rank > 1 ? axis : 0;
  for (int k = 0; k < parts; ++k) {
    std::vector<Size> shape(static_cast<size_t>(rank), Num(1));
    shape[at] = Var(first + k);
    space.inputs.push_back({space.variables[first + k], shape, 1});
  }
  OperatorChoice beside = Concat(rank, static_cast<int64_t>(at), parts);
  beside.leaf_only = beside.ascending = true;
  space.operators = {Split(static_cast<int64_t>(axis), parts), beside, Stretched("mul", {first, rank}),
                     Stretched("add", {first, rank})};
  return space;
}

}  // namespace rewright::generate
