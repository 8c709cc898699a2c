#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[n, c, i..] = (x[n, c, i..] - mean[c]) * (scale[c] / sqrt(var[c] + epsilon)) + bias[c]
static absl::Status BatchNormMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(FirstError({CheckElements(b, Elements::kFloats), CheckRankAtLeast(b, 0, 2), CheckRank(b, 1, 1),
                              CheckRank(b, 2, 1), CheckRank(b, 3, 1), CheckRank(b, 4, 1)}));
  for (int input = 1; input < 5; ++input) {
    b.Require(b.size(input, 0) == b.size(0, 1), b.op().inputs[input] + " must have one element per channel");
  }
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    const Index c = i[1];
    const Scalar x = b.Read(0, i);
    const Scalar scale = b.Read(1, {c}), bias = b.Read(2, {c}), mean = b.Read(3, {c}), var = b.Read(4, {c});
    return (x - mean) * (scale / Sqrt(var + b.Real("epsilon", b.dtype(0)))) + bias;
  });
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

// With D the number of positions n, i.. of a channel:
//   mean[c] = (sum n, i..: x[n, c, i..]) / D
//   var[c]  = (sum n, i..: (x[n, c, i..] - mean[c])^2) / D
//   out[n, c, i..] = (x[n, c, i..] - mean[c]) / sqrt(var[c] + epsilon) * scale[c] + bias[c]
// The outputs are out, mean and var, from which running averages are made.
static absl::Status BatchNormTrainMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(FirstError(
      {CheckElements(b, Elements::kFloats), CheckRankAtLeast(b, 0, 2), CheckRank(b, 1, 1), CheckRank(b, 2, 1)}));
  const Index channels = b.size(0, 1);
  for (int input = 1; input < 3; ++input) {
    b.Require(b.size(input, 0) == channels, b.op().inputs[input] + " must have one element per channel");
  }
  OpBuilder::Ranges ranges = {{"n", b.size(0, 0)}};
  std::vector<Index> sizes = {b.size(0, 0)};
  for (int axis = 2; axis < b.rank(0); ++axis) {
    ranges.emplace_back("k" + std::to_string(axis - 2), b.size(0, axis));
    sizes.push_back(b.size(0, axis));
  }
  const Scalar count = FromIndex(Product(sizes), b.dtype(0));
  const auto x_of = [&](const Index& c) {
    return [&b, c](std::vector<Index> at) {
      at.insert(at.begin() + 1, c);
      return b.Read(0, at);
    };
  };
  const auto mean_of = [&](const Index& c) { return b.Sum(ranges, x_of(c)) / count; };
  const auto var_of = [&](const Index& c, const Scalar& mean) {
    return b.Sum(ranges, [&](const std::vector<Index>& k) { return (x_of(c)(k) - mean) * (x_of(c)(k) - mean); }) /
           count;
  };
  b.Output(b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    const Index c = i[1];
    const Scalar mean = mean_of(c);
    const Scalar deviation = Sqrt(var_of(c, mean) + b.Real("epsilon", b.dtype(0)));
    return (b.Read(0, i) - mean) / deviation * b.Read(1, {c}) + b.Read(2, {c});
  });
  b.Output(b.dtype(0), {channels}, [&](const std::vector<Index>& i) { return mean_of(i[0]); });
  b.Output(b.dtype(0), {channels}, [&](const std::vector<Index>& i) { return var_of(i[0], mean_of(i[0])); });
  return absl::OkStatus();
}

static OpSample BatchNormTrainSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kFloats, 2, 4);
  const TensorType channels{x.dtype, {x.shape[1]}};
  return OpSample{.inputs = {x, channels, channels}, .attrs = {{"epsilon", 1e-3}}};
}

OpDef BatchNormTrainOp() {
  return OpDef{.name = "batch_norm_train",
               .summary =
                   "Normalizes each channel (axis 1) by its own mean and variance, then scales and shifts it; "
                   "mean and variance are outputs, too.",
               .inputs = {"x", "scale", "bias"},
               .attrs = {RealAttr("epsilon", 1e-5, "added to the variance")},
               .meaning = BatchNormTrainMeaning,
               .sample = BatchNormTrainSample};
}

}  // namespace rewright
