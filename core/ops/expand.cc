#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i.., j..] = x[j..], reading index 0 along the axes of x that have size one
static absl::Status ExpandMeaning(OpBuilder& b) {
  const int rank = b.Length("shape");
  const int added = rank - b.rank(0);
  if (added < 0) return b.Error("shape must have at least as many entries as x has axes");
  std::vector<Index> shape;
  for (int k = 0; k < rank; ++k) shape.push_back(b.Sym("shape", k));
  for (int axis = 0; axis < b.rank(0); ++axis) {
    if (b.is_unit(0, axis)) continue;
    b.Require(b.size(0, axis) == shape[added + axis], "a size of x must be one or the size in shape");
  }
  b.Output(b.dtype(0), shape, [&](const std::vector<Index>& i) {
    std::vector<Index> at;
    for (int axis = 0; axis < b.rank(0); ++axis) at.push_back(b.is_unit(0, axis) ? Index(0) : i[added + axis]);
    return b.Read(0, at);
  });
  return absl::OkStatus();
}

static OpSample ExpandSample(Rng& rng) {
  TensorType x = RandomTensor(rng, Elements::kAny, 0, 3);
  Shape shape = RandomShape(rng, 0, 2);
  for (int64_t& size : x.shape) {
    shape.push_back(size);
    if (RandomFlag(rng)) size = 1;
  }
  return OpSample{.inputs = {x}, .attrs = {{"shape", shape}}};
}

OpDef ExpandOp() {
  return OpDef{.name = "expand",
               .summary = "Repeats a tensor along new leading axes and along its axes of size one.",
               .inputs = {"x"},
               .broadcasts = true,
               .attrs = {SymbolicInts("shape", std::nullopt, 1, "the shape of the result")},
               .meaning = ExpandMeaning,
               .sample = ExpandSample};
}

}  // namespace rewright
