#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out_k[.., i, ..] = x[.., sizes_0 + ... + sizes_(k-1) + i, ..]
static absl::Status SplitMeaning(OpBuilder& b) {
  const int axis = static_cast<int>(b.Int("axis"));
  const int parts = b.Length("sizes");
  if (parts == 0) return b.Error("sizes must not be empty");
  const std::vector<Index> sizes = Symbols(b, "sizes"), begins = PrefixSums(sizes);
  for (int k = 0; k < parts; ++k) {
    b.Output(b.dtype(0), With(b.sizes(0), axis, sizes[k]),
             [&](const std::vector<Index>& i) { return b.Read(0, With(i, axis, begins[k] + i[axis])); });
  }
  b.Require(begins.back() == b.size(0, axis), "the sizes of the parts must add up to the size of the axis");
  return absl::OkStatus();
}

static OpSample SplitSample(Rng& rng) {
  TensorType x = RandomTensor(rng, Elements::kAny, 1, 4);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  const std::vector<int64_t> sizes = RandomInts(rng, static_cast<int>(RandomInt(rng, 1, 3)), 1, 4);
  x.shape[axis] = 0;
  for (int64_t size : sizes) x.shape[axis] += size;
  return OpSample{.inputs = {x}, .attrs = {{"axis", axis}, {"sizes", sizes}}};
}

OpDef SplitOp() {
  return OpDef{.name = "split",
               .summary = "Cuts a tensor into parts along an axis.",
               .inputs = {"x"},
               .attrs = {AxisAttr("axis", std::nullopt, "axis that is cut"),
                         SymbolicInts("sizes", std::nullopt, 1, "sizes of the parts along the axis")},
               .meaning = SplitMeaning,
               .sample = SplitSample};
}

}  // namespace rewright
