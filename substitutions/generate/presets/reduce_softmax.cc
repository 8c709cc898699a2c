#include "substitutions/generate/presets/choices.h"
#include "substitutions/generate/presets/presets.h"

namespace rewright::generate {
namespace {

enum : int { kM, kK };
const std::vector<Size> kRowsData = {Var(kM), Var(kK)};
const std::vector<Size> kRowsWeight = {Var(kK), Var(kK)};
const std::vector<Size> kRow = {Var(kK)};
const std::vector<Size> kColumn = {Var(kM), Num(1)};  // a number for each row

Space Rows(const std::string& name, std::vector<InputGroup> inputs, int max_ops,
           std::vector<OperatorChoice> operators) {
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

// Sizes of batches of matrices.
enum : int { kBatch, kRows, kColumns };
const std::vector<Size> kBatchOfRows = {Var(kBatch), Var(kRows), Var(kColumns)};

OperatorChoice Softmax() {
  return {.name = "softmax1", .op = "softmax", .attrs = {{"axis", int64_t{1}}}, .ranks = {2}};
}

OperatorChoice LayerNorm() {
  return {.name = "layer_norm",
          .op = "layer_norm",
          .arity = 3,
          .attrs = {{"axis", int64_t{1}}},
          .any_attr = "epsilon",
          .leaf_only = true,
          .ranks = {2, 1, 1}};
}

}  // namespace

std::vector<Space> ReduceSoftmaxSpaces() {
  using Kind = OperatorChoice::Constant;
  const InputGroup x1{"x", kRowsData, 1}, x2{"x", kRowsData, 2}, column{"s", kColumn, 1}, row{"g", kRow, 1};
  // Not of the numbers for each row: those are reduced.
  const auto whole = [](OperatorChoice choice) {
    choice.no_units = true;
    return choice;
  };
  const OperatorChoice matmul = whole(Matmul()), exp = whole(Unary("exp"));
  const OperatorChoice sum = whole(Reduce("reduce_sum", 1)), max = whole(Reduce("reduce_max", 1));
  const OperatorChoice mean = whole(Reduce("reduce_mean", 1));
  return {
      // Laws of any tensors and any numbers for each row, with as many tensors as the laws have.
      Rows("joins", {{"x", kRowsData, 3}}, 3, {Binary("add"), Concat(2, 0), Concat(2, 1)}),
      Rows("columns", {x2, {"s", kColumn, 2}}, 3,
           {Binary("add"), Stretched("mul", {2, 2}), Stretched("div", {2, 2}), Stretched("sub", {2, 2}),
            Stretched("add", {2, 2})}),
      // Reductions of sums, products and quotients with one number for each row.
      Rows("reductions", {x2, column}, 3,
           {sum, mean, max, Binary("add"), Stretched("mul", {2, 2}), Stretched("div", {2, 2}), Stretched("sub", {2, 2}),
            Stretched("add", {2, 2})}),
      Rows("maxima", {{"x", kRowsData, 3}}, 3, {sum, max, Binary("add"), Binary("max"), Unary("relu")}),
      Rows("both-axes", {x2}, 3,
           {sum, max, mean, whole(Reduce("reduce_sum", 0)), whole(Reduce("reduce_max", 0)), exp, Unary("relu"),
            Concat(2, 0), Concat(2, 1), Transpose({1, 0})}),
      // Laws that apply a product's factor to the product, or to the other factor.
      Rows("products", {x1, {"y", kRowsWeight, 2, true}, column, row}, 3,
           {matmul, Stretched("mul", {2, 2}), Stretched("div", {2, 2}), Stretched("mul", {2, 1}), sum,
            Reshape("column", 1, {Var(kK), Num(1)})}),
      // Softmax by its parts.
      Rows("softmax", {x1, {"y", kRowsWeight, 1, true}}, 4,
           {exp, sum, max, Stretched("div", {2, 2}), Stretched("sub", {2, 2}), matmul, whole(Softmax())}),
      // Layer normalization, and its scale and shift.
      Rows("layer-norm", {x1, {"g", kRow, 2}}, 5,
           {LayerNorm(), Constant("zero", Kind::kSplat, kRow, 0), Constant("one", Kind::kSplat, kRow),
            Stretched("mul", {2, 1}), Stretched("add", {2, 1})}),
      Rows("softmax-of-rows", {x2}, 3, {Softmax(), Concat(2, 0)}),
      // Reductions whose axis goes away.
      Rows("away", {x2}, 3,
           {sum, ReduceAway("reduce_sum", 1), max, ReduceAway("reduce_max", 1), mean, ReduceAway("reduce_mean", 1),
            Merge("flatten", {{0, 1}}, 2), Concat(2, 0), Concat(2, 1), Concat(1, 0), Binary("add"), Binary("max")}),
      Rows("products-away", {x1, {"y", kRowsWeight, 1, true}}, 3,
           {matmul, ReduceAway("reduce_sum", 1), Stretched("mul", {2, 1})}),
      Rows(
          "stretched", {column}, 2,
          {Expand("expand", 2, kRowsData), Reduce("reduce_sum", 1), Reduce("reduce_max", 1), Reduce("reduce_mean", 1)}),
      // Reductions of several axes, one after the other.
      Matrices(
          "axes", {{"x", kBatchOfRows, 1}, {"y", {Var(kRows), Var(kColumns)}, 1}}, 3, 1,
          {ReduceAway("reduce_sum", 0), ReduceAway("reduce_sum", 1), ReduceAway("reduce_sum", 2),
           ReduceAway("reduce_max", 0), ReduceAway("reduce_max", 1), ReduceAway("reduce_max", 2),
           ReduceAway("reduce_mean", 0), ReduceAway("reduce_mean", 1), ReduceAway("reduce_mean", 2), Transpose({1, 0}),
           Transpose({1, 0, 2}), Transpose({0, 2, 1}), Transpose({2, 0, 1}), Transpose({1, 2, 0}),
           Merge("columns", {{0}, {1, 2}}, 3), Merge("rows", {{0, 1}, {2}}, 3), Merge("line", {{0, 1}}, 2)}),
      // A product by blocks.
      Matrices("blocks", {{"x", kBatchOfRows, 1}, {"y", {Var(kBatch), Var(kColumns), Var(kColumns)}, 1, true}}, 4, 1,
               {Matmul({3, 3}), Matmul(), ReduceAway("reduce_sum", 0), Transpose({1, 0, 2}),
                Merge("columns", {{0}, {1, 2}}, 3), Merge("rows", {{0, 1}, {2}}, 3)}),
  };
}

}  // namespace rewright::generate
