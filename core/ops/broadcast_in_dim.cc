#include <algorithm>
#include <numeric>

#include "core/base/status_macros.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i..] = x[i[dims[0]], i[dims[1]], ..], reading index 0 along the axes of x that have size one
static absl::Status BroadcastInDimMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckLength(b, "dims", b.rank(0)));
  const std::vector<int64_t> dims = b.Ints("dims");
  std::vector<Index> shape;
  for (int k = 0; k < b.Length("shape"); ++k) shape.push_back(b.Sym("shape", k));
  if (!AreAxes(dims, static_cast<int>(shape.size()))) return b.Error("dims must be distinct axes of the result");
  for (int axis = 0; axis < b.rank(0); ++axis) {
    if (b.is_unit(0, axis)) continue;
    b.Require(b.size(0, axis) == shape[dims[axis]], "a size of x must be one or the size in shape");
  }
  b.Output(b.dtype(0), shape, [&](const std::vector<Index>& i) {
    std::vector<Index> at;
    for (int axis = 0; axis < b.rank(0); ++axis) at.push_back(b.is_unit(0, axis) ? Index(0) : i[dims[axis]]);
    return b.Read(0, at);
  });
  return absl::OkStatus();
}

static OpSample BroadcastInDimSample(Rng& rng) {
  const Shape shape = RandomShape(rng, 0, 4);
  std::vector<int64_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  std::shuffle(dims.begin(), dims.end(), rng);
  dims.resize(RandomInt(rng, 0, static_cast<int64_t>(dims.size())));
  TensorType x{RandomDType(rng, Elements::kAny), {}};
  for (int64_t dim : dims) x.shape.push_back(RandomInt(rng, 0, 3) == 0 ? 1 : shape[dim]);
  return OpSample{.inputs = {x}, .attrs = {{"shape", shape}, {"dims", dims}}};
}

OpDef BroadcastInDimOp() {
  return OpDef{.name = "broadcast_in_dim",
               .summary = "Lays the axes of a tensor into a larger shape and repeats it along the others.",
               .inputs = {"x"},
               .broadcasts = true,
               .attrs = {SymbolicInts("shape", std::nullopt, 1, "the shape of the result"),
                         StructuralInts("dims", "for each axis of x, its axis in the result")},
               .meaning = BroadcastInDimMeaning,
               .sample = BroadcastInDimSample};
}

}  // namespace rewright
