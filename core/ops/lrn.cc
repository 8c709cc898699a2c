#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[n, c, i..] = x[n, c, i..] / (bias + alpha / size * (sum k < size: x[n, c - (size-1) div 2 + k, i..]^2))^beta
// A read beyond the channels of x is 0.
static absl::Status LrnMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(FirstError({CheckElements(b, Elements::kFloats), CheckRankAtLeast(b, 0, 2)}));
  const DType dtype = b.dtype(0);
  const Index size = b.Sym("size");
  return OnlyOutput(b, dtype, b.sizes(0), [&](const std::vector<Index>& i) {
    const Scalar squares = b.Sum({{"k", size}}, [&](const std::vector<Index>& bound) {
      const Index c = i[1] - FloorDiv(size - 1, 2) + bound[0];
      const Scalar x = b.Read(0, With(i, 1, c));
      return Select(InRange(c, 0, b.size(0, 1)), x * x, 0.0);
    });
    const Scalar base = b.Real("bias", dtype) + b.Real("alpha", dtype) / FromIndex(size, dtype) * squares;
    return b.Read(0, i) / Pow(base, b.Real("beta", dtype));
  });
}

static OpSample LrnSample(Rng& rng) {
  return OpSample{.inputs = {RandomTensor(rng, Elements::kFloats, 2, 4)},
                  .attrs = {{"size", RandomInt(rng, 1, 5)}, {"alpha", 0.5}, {"beta", 0.75}, {"bias", 1.5}}};
}

OpDef LrnOp() {
  return OpDef{
      .name = "lrn",
      .summary = "Local response normalization: divides by a power of the squares of neighbouring channels (axis 1).",
      .inputs = {"x"},
      .attrs = {SymbolicInt("size", std::nullopt, 1, "number of neighbouring channels"),
                RealAttr("alpha", 1e-4, "weight of the squares"), RealAttr("beta", 0.75, "exponent"),
                RealAttr("bias", 1.0, "added to the sum")},
      .meaning = LrnMeaning,
      .sample = LrnSample};
}

}  // namespace rewright
