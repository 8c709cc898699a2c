#include <algorithm>
#include <numeric>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i..] = x[j..] with j[perm[k]] = i[k]: axis k of the output is axis perm[k] of x.
static absl::Status TransposeMeaning(OpBuilder& b) {
  const std::vector<int64_t> perm = b.Ints("perm");
  std::vector<int64_t> all(static_cast<size_t>(b.rank(0)));
  std::iota(all.begin(), all.end(), 0);
  if (!std::is_permutation(perm.begin(), perm.end(), all.begin(), all.end())) {
    return b.Error("perm must name every axis of x once");
  }
  std::vector<Index> shape;
  for (int64_t axis : perm) shape.push_back(b.size(0, static_cast<int>(axis)));
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    std::vector<Index> at(perm.size());
    for (size_t k = 0; k < perm.size(); ++k) at[perm[k]] = i[k];
    return b.Read(0, at);
  });
}

static OpSample TransposeSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 0, 4);
  std::vector<int64_t> perm(x.shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::shuffle(perm.begin(), perm.end(), rng);
  return OpSample{.inputs = {x}, .attrs = {{"perm", perm}}};
}

OpDef TransposeOp() {
  return OpDef{.name = "transpose",
               .summary = "Reorders the axes.",
               .inputs = {"x"},
               .attrs = {StructuralInts("perm", "the axes of x in their new order")},
               .meaning = TransposeMeaning,
               .sample = TransposeSample};
}

}  // namespace rewright
