#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[.., i, ..] = 0 <= i - before < n along every axis ? x[.., i - before, ..] : value
static absl::Status PadMeaning(OpBuilder& b) {
  const int rank = b.rank(0);
  if (absl::Status error = FirstError(
          {CheckElements(b, Elements::kNumbers), CheckLength(b, "before", rank), CheckLength(b, "after", rank)});
      !error.ok()) {
    return error;
  }
  std::vector<Index> shape;
  for (int axis = 0; axis < rank; ++axis) {
    shape.push_back(b.size(0, axis) + b.Sym("before", axis) + b.Sym("after", axis));
  }
  b.Output(b.dtype(0), shape, [&](const std::vector<Index>& i) {
    std::vector<Index> at;
    Cond inside = true;
    for (int axis = 0; axis < rank; ++axis) {
      at.push_back(i[axis] - b.Sym("before", axis));
      inside = inside && InRange(at.back(), 0, b.size(0, axis));
    }
    return Select(inside, b.Read(0, at), b.Real("value", b.dtype(0)));
  });
  return absl::OkStatus();
}

static OpSample PadSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kNumbers, 0, 4);
  return OpSample{.inputs = {x},
                  .attrs = {{"before", RandomInts(rng, x.rank(), 0, 2)},
                            {"after", RandomInts(rng, x.rank(), 0, 2)},
                            {"value", static_cast<double>(RandomInt(rng, -2, 2))}}};
}

OpDef PadOp() {
  return OpDef{.name = "pad",
               .summary = "Surrounds a tensor by a value; one entry of each list per axis.",
               .inputs = {"x"},
               .attrs = {SymbolicInts("before", std::nullopt, 0, "indices added at the beginning of each axis"),
                         SymbolicInts("after", std::nullopt, 0, "indices added at the end of each axis"),
                         RealAttr("value", 0.0, "the value of the added elements")},
               .meaning = PadMeaning,
               .sample = PadSample};
}

}  // namespace rewright
