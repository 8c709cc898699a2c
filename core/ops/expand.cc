// Tensors repeated along new axes or axes of size one.
#include <algorithm>
#include <numeric>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// The axes of x are `dims` of the result; index 0 is read along those that have size one.
static absl::Status LaidInto(OpBuilder& b, const std::vector<Index>& shape, const std::vector<int64_t>& dims) {
  for (int axis = 0; axis < b.rank(0); ++axis) {
    if (b.is_unit(0, axis)) continue;
    b.Require(b.size(0, axis) == shape[dims[axis]], "a size of x must be one or the size in shape");
  }
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    std::vector<Index> at;
    for (int axis = 0; axis < b.rank(0); ++axis) at.push_back(b.is_unit(0, axis) ? Index(0) : i[dims[axis]]);
    return b.Read(0, at);
  });
}

// out[i.., j..] = x[j..], reading index 0 along the axes of x that have size one
static absl::Status ExpandMeaning(OpBuilder& b) {
  const int added = b.Length("shape") - b.rank(0);
  if (added < 0) return b.Error("shape must have at least as many entries as x has axes");
  std::vector<int64_t> dims(static_cast<size_t>(b.rank(0)));
  std::iota(dims.begin(), dims.end(), added);
  return LaidInto(b, Symbols(b, "shape"), dims);
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

// out[i..] = x[i[dims[0]], i[dims[1]], ..], reading index 0 along the axes of x that have size one
static absl::Status BroadcastInDimMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckLength(b, "dims", b.rank(0)));
  const std::vector<int64_t> dims = b.Ints("dims");
  if (!AreAxes(dims, b.Length("shape"))) return b.Error("dims must be distinct axes of the result");
  return LaidInto(b, Symbols(b, "shape"), dims);
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
