#include "substitutions/generate/presets/choices.h"
#include "substitutions/generate/presets/presets.h"

namespace rewright::generate {
namespace {

enum : int { kM, kK };
const std::vector<Size> kData = {Var(kM), Var(kK)};
const std::vector<Size> kWeight = {Var(kK), Var(kK)};
const std::vector<Size> kRow = {Var(kK)};
const std::vector<Size> kColumn = {Var(kM), Num(1)};  // a number for each row

Space Rows(const std::string& name, std::vector<InputGroup> inputs, int max_ops, std::vector<OperatorChoice> operators) {
  return {.name = name,
          .variables = {"m", "k"},
          .inputs = std::move(inputs),
          .operators = std::move(operators),
          .max_ops = max_ops,
          .max_outputs = 1,
          .assignments = {{2, 4}, {5, 3}},
          .confirmation = {{7, 3}, {3, 6}},
          .nominal = {3, 4}};
}

OperatorChoice Softmax() { return {.name = "softmax1", .op = "softmax", .attrs = {{"axis", int64_t{1}}}, .ranks = {2}}; }

OperatorChoice LayerNorm() {
  return {.name = "layer_norm",
          .op = "layer_norm",
          .arity = 3,
          .attrs = {{"axis", int64_t{1}}},
          .leaf_only = true,
          .ranks = {2, 1, 1}};
}

}  // namespace

std::vector<Space> ReduceSoftmaxSpaces() {
  using Kind = OperatorChoice::Constant;
  const InputGroup x1{"x", kData, 1}, x2{"x", kData, 2}, column{"s", kColumn, 1}, row{"g", kRow, 1};
  // Not of the numbers for each row: those are reduced.
  const auto whole = [](OperatorChoice choice) {
    choice.no_units = true;
    return choice;
  };
  const OperatorChoice matmul = whole(Matmul()), exp = whole(Unary("exp"));
  const OperatorChoice sum = whole(Reduce("reduce_sum", 1)), max = whole(Reduce("reduce_max", 1));
  const OperatorChoice mean = whole(Reduce("reduce_mean", 1));
  return {
      // Reductions of sums, products and quotients with one number for each row.
      Rows("reductions", {x2, column}, 3,
           {sum, mean, max, Binary("add"), Stretched("mul", {2, 2}), Stretched("div", {2, 2}), Stretched("sub", {2, 2}),
            Stretched("add", {2, 2})}),
      Rows("maxima", {{"x", kData, 3}}, 3, {sum, max, Binary("add"), Binary("max"), Unary("relu")}),
      Rows("both-axes", {x2}, 3,
           {sum, max, mean, whole(Reduce("reduce_sum", 0)), whole(Reduce("reduce_max", 0)), exp, Unary("relu"),
            Concat(2, 0), Concat(2, 1), Transpose({1, 0})}),
      // What of a product's factors may be applied to the product, or to the other factor.
      Rows("products", {x1, {"y", kWeight, 2, true}, column, row}, 3,
           {matmul, Stretched("mul", {2, 2}), Stretched("div", {2, 2}), Stretched("mul", {2, 1}), sum,
            Reshape("column", 1, {Var(kK), Num(1)})}),
      // Softmax by its parts.
      Rows("softmax", {x1, {"y", kWeight, 1, true}}, 4,
           {exp, sum, max, Stretched("div", {2, 2}), Stretched("sub", {2, 2}), matmul, whole(Softmax())}),
      // Layer normalization, and its scale and shift.
      Rows("layer-norm", {x1, {"g", kRow, 2}}, 3,
           {LayerNorm(), Constant("zero", Kind::kSplat, kRow, 0), Stretched("mul", {2, 1}), Stretched("add", {2, 1})}),
  };
}

}  // namespace rewright::generate
