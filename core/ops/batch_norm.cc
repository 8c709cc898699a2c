#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[n, c, i..] = (x[n, c, i..] - mean[c]) * (scale[c] / sqrt(var[c] + epsilon)) + bias[c]
static absl::Status BatchNormMeaning(OpBuilder& b) {
  if (absl::Status error = FirstError({CheckElements(b, Elements::kFloats), CheckRankAtLeast(b, 0, 2),
                                       CheckRank(b, 1, 1), CheckRank(b, 2, 1), CheckRank(b, 3, 1), CheckRank(b, 4, 1)});
      !error.ok()) {
    return error;
  }
  for (int input = 1; input < 5; ++input) {
    b.Require(b.size(input, 0) == b.size(0, 1), b.op().inputs[input] + " must have one element per channel");
  }
  b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    const Index c = i[1];
    const Scalar x = b.Read(0, i);
    const Scalar scale = b.Read(1, {c}), bias = b.Read(2, {c}), mean = b.Read(3, {c}), var = b.Read(4, {c});
    return (x - mean) * (scale / Sqrt(var + b.Real("epsilon", b.dtype(0)))) + bias;
  });
  return absl::OkStatus();
}

static OpSample BatchNormSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kFloats, 2, 4);
  const TensorType channels{x.dtype, {x.shape[1]}};
  return OpSample{
      .inputs = {x, channels, channels, channels, channels}, .attrs = {{"epsilon", 1e-3}}, .low = 0.1, .high = 2};
}

OpDef BatchNormOp() {
  return OpDef{.name = "batch_norm",
               .summary = "Normalizes each channel (axis 1) by a given mean and variance, then scales and shifts it.",
               .inputs = {"x", "scale", "bias", "mean", "var"},
               .attrs = {RealAttr("epsilon", 1e-5, "added to the variance")},
               .meaning = BatchNormMeaning,
               .sample = BatchNormSample};
}

}  // namespace rewright
