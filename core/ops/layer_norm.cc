#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// With D the number of positions j.. of the axes from `axis` on:
//   mean[i..] = (sum j..: x[i.., j..]) / D
//   var[i..]  = (sum j..: (x[i.., j..] - mean[i..])^2) / D
//   out[i.., j..] = (x[i.., j..] - mean[i..]) / sqrt(var[i..] + epsilon) * scale[j..] + bias[j..]
static absl::Status LayerNormMeaning(OpBuilder& b) {
  const int axis = static_cast<int>(b.Int("axis"));
  const int inner = b.rank(0) - axis;
  RETURN_IF_ERROR(FirstError({CheckElements(b, Elements::kFloats), CheckRank(b, 1, inner), CheckRank(b, 2, inner)}));
  OpBuilder::Ranges ranges;
  std::vector<Index> inner_sizes;
  for (int k = 0; k < inner; ++k) {
    const Index size = b.size(0, axis + k);
    b.Require(b.size(1, k) == size, "scale must have the sizes of the normalized axes");
    b.Require(b.size(2, k) == size, "bias must have the sizes of the normalized axes");
    ranges.emplace_back("j" + std::to_string(k), size);
    inner_sizes.push_back(size);
  }
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    const std::vector<Index> outer(i.begin(), i.begin() + axis);
    auto x = [&](const std::vector<Index>& j) {
      std::vector<Index> at = outer;
      at.insert(at.end(), j.begin(), j.end());
      return b.Read(0, at);
    };
    const Scalar count = FromIndex(Product(inner_sizes), b.dtype(0));
    const Scalar mean = b.Sum(ranges, x) / count;
    const Scalar var =
        b.Sum(ranges, [&](const std::vector<Index>& j) { return (x(j) - mean) * (x(j) - mean); }) / count;
    const std::vector<Index> j(i.begin() + axis, i.end());
    const Scalar deviation = Sqrt(var + b.Real("epsilon", b.dtype(0)));
    return (x(j) - mean) / deviation * b.Read(1, j) + b.Read(2, j);
  });
}

static OpSample LayerNormSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kFloats, 1, 4);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  const TensorType inner{x.dtype, Shape(x.shape.begin() + axis, x.shape.end())};
  return OpSample{.inputs = {x, inner, inner}, .attrs = {{"axis", axis}, {"epsilon", 1e-3}}};
}

OpDef LayerNormOp() {
  return OpDef{.name = "layer_norm",
               .summary = "Normalizes over the axes from `axis` on by their mean and variance, then scales and shifts.",
               .inputs = {"x", "scale", "bias"},
               .attrs = {AxisAttr("axis", Attr(-1), "first of the axes that are normalized"),
                         RealAttr("epsilon", 1e-5, "added to the variance")},
               .meaning = LayerNormMeaning,
               .sample = LayerNormSample};
}

}  // namespace rewright
