#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// With e = interior: out[.., i, ..] = x[.., (i - before) / (e + 1), ..] where that is an index of x along every axis,
// value elsewhere. A negative entry of before or after cuts off.
static absl::Status PadMeaning(OpBuilder& b) {
  const int rank = b.rank(0);
  const bool spread = b.Length("interior") > 0;
  RETURN_IF_ERROR(
      FirstError({CheckElements(b, Elements::kNumbers), CheckLength(b, "before", rank), CheckLength(b, "after", rank),
                  spread ? CheckLength(b, "interior", rank) : absl::OkStatus()}));
  std::vector<SpreadAxis> axes;
  std::vector<Index> shape;
  for (int axis = 0; axis < rank; ++axis) {
    const Index size = b.size(0, axis);
    if (spread) b.Require(size >= 1, "an axis must not be empty where interior is given");
    axes.push_back({size, spread ? b.Sym("interior", axis) + 1 : Index(1)});
    shape.push_back(axes.back().Extent() + b.Sym("before", axis) + b.Sym("after", axis));
  }
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    std::vector<Index> at;
    Cond inside = true;
    for (int axis = 0; axis < rank; ++axis) {
      const Index position = i[axis] - b.Sym("before", axis);
      at.push_back(axes[axis].At(position));
      inside = inside && axes[axis].Has(position);
    }
    return Select(inside, b.Read(0, at), b.Real("value", b.dtype(0)));
  });
}

// Cuts leave at least one element of every axis.
static OpSample PadSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kNumbers, 0, 4);
  std::vector<int64_t> before = RandomInts(rng, x.rank(), -2, 2);
  std::vector<int64_t> after = RandomInts(rng, x.rank(), -2, 2);
  for (size_t axis = 0; axis < before.size(); ++axis) {
    if (x.shape[axis] + before[axis] + after[axis] < 1) before[axis] = after[axis] = 1;
  }
  OpSample sample{
      .inputs = {x},
      .attrs = {{"before", before}, {"after", after}, {"value", static_cast<double>(RandomInt(rng, -2, 2))}}};
  if (RandomFlag(rng)) sample.attrs["interior"] = RandomInts(rng, x.rank(), 0, 2);
  return sample;
}

OpDef PadOp() {
  return OpDef{
      .name = "pad",
      .summary = "Surrounds a tensor by a value, or cuts it, and spreads it out; one entry of each list per axis.",
      .inputs = {"x"},
      .attrs = {SymbolicInts("before", std::nullopt, INT64_MIN,
                             "indices added at the beginning of each axis; cut off where negative"),
                SymbolicInts("after", std::nullopt, INT64_MIN,
                             "indices added at the end of each axis; cut off where negative"),
                RealAttr("value", 0.0, "the value of the added elements"),
                SymbolicInts("interior", List({}), 0,
                             "indices added between two of each axis; empty where there are none")},
      .meaning = PadMeaning,
      .sample = PadSample};
}

}  // namespace rewright
