#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// a, b, ... of sizes A, B, ... along `axis`:
//   out[.., i, ..] = i < A ? a[.., i, ..] : i < A + B ? b[.., i - A, ..] : ...
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
  std::vector<Index> ends;  // of the inputs within the output
  for (int k = 0; k < b.num_inputs(); ++k) ends.push_back((k > 0 ? ends.back() : Index(0)) + b.size(k, axis));

  return OnlyOutput(b, b.dtype(0), With(b.sizes(0), axis, ends.back()), [&](const std::vector<Index>& i) {
    auto part = [&](int k) { return b.Read(k, With(i, axis, i[axis] - (k > 0 ? ends[k - 1] : Index(0)))); };
    Scalar element = part(b.num_inputs() - 1);
    for (int k = b.num_inputs() - 2; k >= 0; --k) element = Select(i[axis] < ends[k], part(k), element);
    return element;
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
