#include "substitutions/generate/presets/choices.h"
#include "substitutions/generate/presets/presets.h"

namespace rewright::generate {
namespace {

enum : int { kB, kM, kK };
const std::vector<Size> kData = {Var(kM), Var(kK)};
const std::vector<Size> kWeight = {Var(kK), Var(kK)};  // square, so that products may follow one another
const std::vector<Size> kBias = {Var(kK)};
const std::vector<Size> kDataBatch = {Var(kB), Var(kM), Var(kK)};
const std::vector<Size> kWeightBatch = {Var(kB), Var(kK), Var(kK)};

OperatorChoice MatrixMatmul() {
  OperatorChoice matmul = Matmul();
  matmul.forbidden_inner = kM;
  return matmul;
}

// Three products of one input, each with a bias: queries, keys and values.
Space SharedByThree(const std::string& name, const std::vector<Size>& data, OperatorChoice matmul) {
  const int rank = static_cast<int>(data.size());
  OperatorChoice bias = Stretched("add", {rank, 1}), beside = Concat(2, 1, 3), biases = Concat(1, 0, 3);
  matmul.leaf_only = bias.no_leaf = beside.ascending = biases.ascending = true;
  Space space = Merges(Matrices(name, {{"x", data, 1}, {"y", kWeight, 3, true}, {"p", kBias, 3}}, 6, 2,
                                {matmul, bias, beside, biases, Split(rank - 1, 3)}));
  space.max_outputs = 3;
  return space;
}

}  // namespace

std::vector<Space> LinearSpaces() {
  const OperatorChoice bias = Stretched("add", {2, 1}), columns = Stretched("mul", {2, 1});
  const OperatorChoice rows = Stretched("mul", {2, 2});
  OperatorChoice of_input = MatrixMatmul(), of_product = bias, beside = Concat(2, 1), biases = Concat(1, 0);
  of_input.leaf_only = of_product.no_leaf = beside.leaf_only = biases.leaf_only = true;
  using Kind = OperatorChoice::Constant;
  return {
      Matrices("products", {{"x", kData, 3}, {"y", kWeight, 3, true}, {"s", {}, 1}}, 3, 2,
               {MatrixMatmul(), Binary("add"), Scale(), Concat(2, 1), Concat(2, 0), Split(1), Split(0),
                Transpose({1, 0}), Constant("identity", Kind::kIdentity, kWeight)}),
      // A factor of each column or row, and biases.
      Matrices("biases", {{"x", kData, 2}, {"y", kWeight, 2, true}, {"p", kBias, 2}}, 3, 2,
               {MatrixMatmul(), Binary("add"), bias, columns, rows, Reshape("column", 1, {Var(kK), Num(1)}),
                Concat(2, 1), Concat(1, 0), Transpose({1, 0})}),
      Merges(Matrices("shared-input", {{"x", kData, 1}, {"y", kWeight, 2, true}, {"p", kBias, 2}}, 5, 2,
                      {of_input, of_product, beside, biases, Split(1)})),
      SharedByThree("shared-by-three", kData, MatrixMatmul()),
      // Batches of products; the last two axes are a matrix.
      Matrices("batches", {{"x", kDataBatch, 2}, {"y", kWeightBatch, 2, true}, {"w", kWeight, 2, true}}, 3, 2,
               {Matmul({3, 3}), Matmul({3, 2}), Binary("add"), Concat(3, 0), Concat(3, 1), Concat(3, 2), Concat(2, 1),
                Concat(2, 0), Transpose({0, 2, 1}), Transpose({1, 0}), Split(0), Split(1), Split(2)}),
      Merges(Matrices("shared-batch", {{"x", kDataBatch, 1}, {"y", kWeightBatch, 2, true}, {"w", kWeight, 2, true}}, 4,
                      2, {Matmul({3, 3}), Matmul({3, 2}), Concat(3, 2), Concat(2, 1), Split(2)})),
      SharedByThree("shared-batch-by-three", kDataBatch, Matmul({3, 2})),
      // The rows of all batches are the rows of one matrix.
      Matrices("flattened", {{"x", kDataBatch, 2}, {"w", kWeight, 2, true}}, 3, 2,
               {Matmul({3, 2}), Matmul(), Binary("add"), Merge("flatten", {{0, 1}, {2}}, 3),
                Reshape("unflatten", 2, kDataBatch)}),
  };
}

}  // namespace rewright::generate
