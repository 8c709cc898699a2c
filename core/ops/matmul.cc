#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// a[b.., m, k], b[b.., k, n]:  out[b.., m, n] = sum k: a[b.., m, k] * b[b.., k, n]
// The batch axes broadcast together as in NumPy.
static absl::Status MatmulMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(
      FirstError({CheckElements(b, Elements::kNumbers), CheckRankAtLeast(b, 0, 2), CheckRankAtLeast(b, 1, 2)}));
  const Broadcast batch(b, {0, 1}, /*trailing=*/2);
  const Index rows = b.size(0, b.rank(0) - 2);
  const Index inner = b.size(0, b.rank(0) - 1);
  const Index columns = b.size(1, b.rank(1) - 1);
  b.Require(inner == b.size(1, b.rank(1) - 2), "the inner sizes must be equal");

  std::vector<Index> shape = batch.shape();
  shape.insert(shape.end(), {rows, columns});
  std::vector<std::string> names;
  for (size_t i = 0; i < batch.shape().size(); ++i) names.push_back("b" + std::to_string(i));
  names.insert(names.end(), {"m", "n"});

  return OnlyOutput(
      b, b.dtype(0), shape,
      [&](const std::vector<Index>& i) {
        const Index m = i[i.size() - 2];
        const Index n = i[i.size() - 1];
        return b.Sum({{"k", inner}}, [&](const std::vector<Index>& bound) {
          const Index k = bound[0];
          std::vector<Index> left = batch.At(0, i);
          std::vector<Index> right = batch.At(1, i);
          left.insert(left.end(), {m, k});
          right.insert(right.end(), {k, n});
          return b.Read(0, left) * b.Read(1, right);
        });
      },
      names);
}

static OpSample MatmulSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kNumbers);
  std::vector<Shape> shapes = RandomBroadcast(rng, 2, 2);
  const Shape mkn = RandomInts(rng, 3, 1, 7);
  shapes[0].insert(shapes[0].end(), {mkn[0], mkn[1]});
  shapes[1].insert(shapes[1].end(), {mkn[1], mkn[2]});
  return OpSample{.inputs = {{dtype, shapes[0]}, {dtype, shapes[1]}}, .attrs = {}};
}

OpDef MatmulOp() {
  return OpDef{.name = "matmul",
               .summary = "The product of matrices, batched over the leading axes.",
               .inputs = {"a", "b"},
               .broadcasts = true,
               .attrs = {},
               .meaning = MatmulMeaning,
               .sample = MatmulSample};
}

}  // namespace rewright
