#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i.., j, l..] = sum k <= j: x[i.., k, l..]; k < j where it is exclusive, from the other end where it is reversed.
static absl::Status CumsumMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 0, Elements::kNumbers));
  const int axis = static_cast<int>(b.Int("axis"));
  const bool exclusive = b.Flag("exclusive"), reverse = b.Flag("reverse");
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    const auto counts = [&](const std::vector<Index>& k) {
      const Index& first = reverse ? i[axis] : k[0];
      const Index& last = reverse ? k[0] : i[axis];
      return exclusive ? first < last : first <= last;
    };
    return b.Reduce(
        ReduceKind::kSum, {{"k", b.size(0, axis)}},
        [&](const std::vector<Index>& k) { return b.Read(0, With(i, axis, k[0])); }, counts);
  });
}

static OpSample CumsumSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kNumbers, 1, 3);
  return OpSample{.inputs = {x},
                  .attrs = {{"axis", RandomInt(rng, 0, x.rank() - 1)},
                            {"exclusive", int64_t{RandomFlag(rng)}},
                            {"reverse", int64_t{RandomFlag(rng)}}}};
}

OpDef CumsumOp() {
  return OpDef{.name = "cumsum",
               .summary = "Sums of the elements up to each position along an axis.",
               .inputs = {"x"},
               .attrs = {AxisAttr("axis", Attr(-1), "axis along which the sums grow"),
                         FlagAttr("exclusive", false, "whether an element is left out of its own sum"),
                         FlagAttr("reverse", false, "whether the sums are of the elements from each position on")},
               .meaning = CumsumMeaning,
               .sample = CumsumSample};
}

}  // namespace rewright
