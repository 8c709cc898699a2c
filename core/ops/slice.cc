#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[.., i, ..] = x[.., start + i*step, ..] along every axis, where start + i*step < stop
static absl::Status SliceMeaning(OpBuilder& b) {
  const int rank = b.rank(0);
  const bool stepped = b.Length("steps") > 0;
  RETURN_IF_ERROR(FirstError({CheckLength(b, "starts", rank), CheckLength(b, "stops", rank),
                              stepped ? CheckLength(b, "steps", rank) : absl::OkStatus()}));
  auto step = [&](int axis) { return stepped ? b.Sym("steps", axis) : Index(1); };
  std::vector<Index> shape;
  for (int axis = 0; axis < rank; ++axis) {
    const Index start = b.Sym("starts", axis);
    const Index stop = b.Sym("stops", axis);
    b.Require(start <= stop, "a start must not lie after its stop");
    b.Require(stop <= b.size(0, axis), "a stop must not lie after the end of its axis");
    shape.push_back(CeilDiv(stop - start, step(axis)));
  }
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    std::vector<Index> at;
    for (int axis = 0; axis < rank; ++axis) at.push_back(b.Sym("starts", axis) + i[axis] * step(axis));
    return b.Read(0, at);
  });
}

static OpSample SliceSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 0, 4);
  std::vector<int64_t> starts, stops;
  for (int64_t size : x.shape) {
    starts.push_back(RandomInt(rng, 0, size - 1));
    stops.push_back(RandomInt(rng, starts.back() + 1, size));
  }
  Attrs attrs = {{"starts", starts}, {"stops", stops}};
  if (RandomFlag(rng)) attrs["steps"] = RandomInts(rng, x.rank(), 1, 3);
  return OpSample{.inputs = {x}, .attrs = attrs};
}

OpDef SliceOp() {
  return OpDef{
      .name = "slice",
      .summary = "Cuts out a part of a tensor, or every so many-th index of it; one entry of each list per axis.",
      .inputs = {"x"},
      .attrs = {SymbolicInts("starts", std::nullopt, 0, "first index along each axis"),
                SymbolicInts("stops", std::nullopt, 0, "the index after the last along each axis"),
                SymbolicInts("steps", List({}), 1, "distance of the indices along each axis; empty where all are one")},
      .meaning = SliceMeaning,
      .sample = SliceSample};
}

// out[.., i, ..] = x[.., n - 1 - i, ..] along `axes`
static absl::Status ReverseMeaning(OpBuilder& b) {
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](std::vector<Index> i) {
    for (int64_t axis : b.Ints("axes")) i[axis] = b.size(0, static_cast<int>(axis)) - 1 - i[axis];
    return b.Read(0, i);
  });
}

static OpSample ReverseSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 0, 4);
  return OpSample{.inputs = {x}, .attrs = {{"axes", RandomAxes(rng, x.rank())}}};
}

OpDef ReverseOp() {
  return OpDef{.name = "reverse",
               .summary = "Turns the order along some axes around.",
               .inputs = {"x"},
               .attrs = {AxesAttr("axes", "axes that are turned around")},
               .meaning = ReverseMeaning,
               .sample = ReverseSample};
}

}  // namespace rewright
