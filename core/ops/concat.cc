#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// a, b, ... of sizes A, B, ... along `axis`:
//   out[.., i, ..] = i < A ? a[.., i, ..] : i < A + B ? b[.., i - A, ..] : ...

// Returns the element at `i` where it is one of the inputs [from, to).
static Scalar PartAt(const OpBuilder& b, int axis, const std::vector<Index>& begins, const std::vector<Index>& i,
                     size_t from, size_t to) {
  if (to - from == 1) return b.Read(static_cast<int>(from), With(i, axis, i[axis] - begins[from]));
  const size_t middle = to - from <= kPartsInARow ? from + 1 : from + (to - from) / 2;
  return Select(i[axis] < begins[middle], PartAt(b, axis, begins, i, from, middle),
                PartAt(b, axis, begins, i, middle, to));
}

static absl::Status ConcatMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, Elements::kAny));
  for (int k = 1; k < b.num_inputs(); ++k) {
    if (b.rank(k) != b.rank(0)) return b.Error("the inputs must have one rank");
  }
  const int axis = static_cast<int>(b.Int("axis"));
  for (int k = 1; k < b.num_inputs(); ++k) {
    for (int other = 0; other < b.rank(0); ++other) {
      if (other == axis) continue;
      b.Require(b.size(0, other) == b.size(k, other), "sizes must be equal except along the axis");
    }
  }
  std::vector<Index> sizes;
  for (int k = 0; k < b.num_inputs(); ++k) sizes.push_back(b.size(k, axis));
  const std::vector<Index> begins = PrefixSums(sizes);  // of the inputs within the output, then its end

  return OnlyOutput(b, b.dtype(0), With(b.sizes(0), axis, begins.back()), [&](const std::vector<Index>& i) {
    return PartAt(b, axis, begins, i, 0, sizes.size());
  });
}

static OpSample ConcatSample(Rng& rng) {
  const TensorType first = RandomTensor(rng, Elements::kAny, 1, 4);
  const int64_t axis = RandomInt(rng, 0, first.rank() - 1);
  std::vector<TensorType> inputs(static_cast<size_t>(RandomInt(rng, 1, 4)), first);
  for (TensorType& input : inputs) input.shape[axis] = RandomInt(rng, 1, 5);
  return OpSample{.inputs = inputs, .attrs = {{"axis", axis}}};
}

OpDef ConcatOp() {
  return OpDef{.name = "concat",
               .summary = "Joins tensors along an axis.",
               .inputs = {"x"},
               .variadic = true,
               .attrs = {AxisAttr("axis", std::nullopt, "axis along which the inputs follow one another")},
               .meaning = ConcatMeaning,
               .sample = ConcatSample};
}

}  // namespace rewright
