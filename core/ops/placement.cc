// Placements: how a tensor comes to devices and back. A tensor on devices has them as its first axis; f on every device
// is each_f (core/lift/lift.h). They are ordinary operators, so that a graph for several devices has one meaning, which
// the interpreter gives without any device. Sums, maxima.. over the devices are those over axis 0.
//
// Communication is made of them: an all-gather is replicate of combine, a reduce-scatter partition of a sum, an
// all-reduce replicate of a sum, an all-to-all partition of combine.
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

AttrSpec AxisOfWhole() { return StructuralInt("axis", 0, "axis of the whole tensor"); }
AttrSpec Degree() { return SymbolicInt("degree", std::nullopt, 1, "number of devices"); }

// The position with an index put before it.
std::vector<Index> Prefixed(const Index& first, const std::vector<Index>& rest) {
  std::vector<Index> position = {first};
  position.insert(position.end(), rest.begin(), rest.end());
  return position;
}

absl::Status CheckAxis(const OpBuilder& b, int64_t axis, int rank) {
  return axis < rank ? absl::OkStatus() : b.Error("the axis must be one of the tensor's");
}

// A tensor on devices, and an axis of the whole.
OpSample OnDevices(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kFloats, 2, 4);
  return OpSample{.inputs = {x}, .attrs = {{"axis", RandomInt(rng, 0, x.rank() - 2)}}};
}

// out[p, .., i, ..] = x[.., p*n + i, ..] for blocks of n = size / degree
absl::Status PartitionMeaning(OpBuilder& b) {
  const int axis = static_cast<int>(b.Int("axis"));
  RETURN_IF_ERROR(CheckAxis(b, axis, b.rank(0)));
  const Index degree = b.Sym("degree"), block = FloorDiv(b.size(0, axis), degree);
  b.Require(b.size(0, axis) == degree * block, "the size of the axis must be a multiple of degree");
  return OnlyOutput(b, b.dtype(0), Prefixed(degree, With(b.sizes(0), axis, block)), [&](const std::vector<Index>& i) {
    return b.Read(0, With({i.begin() + 1, i.end()}, axis, i[0] * block + i[axis + 1]));
  });
}

OpSample PartitionSample(Rng& rng) {
  OpSample sample = OnDevices(rng);
  Shape& shape = sample.inputs[0].shape;
  sample.attrs["degree"] = shape[0];
  const int64_t degree = shape[0];
  shape.erase(shape.begin());
  shape[std::get<int64_t>(sample.attrs["axis"])] *= degree;
  return sample;
}

// out[.., i, ..] = x[i div n, .., i mod n, ..] for blocks of n
absl::Status CombineMeaning(OpBuilder& b) {
  const int axis = static_cast<int>(b.Int("axis"));
  RETURN_IF_ERROR(CheckAxis(b, axis, b.rank(0) - 1));
  const Index block = b.size(0, axis + 1);
  std::vector<Index> shape = b.sizes(0);
  shape.erase(shape.begin());
  b.Require(block >= 1, "a block must not be empty");
  return OnlyOutput(b, b.dtype(0), With(shape, axis, b.size(0, 0) * block), [&](const std::vector<Index>& i) {
    return b.Read(0, Prefixed(FloorDiv(i[axis], block), With(i, axis, Mod(i[axis], block))));
  });
}

// out[p, i..] = x[i..]
absl::Status ReplicateMeaning(OpBuilder& b) {
  return OnlyOutput(b, b.dtype(0), Prefixed(b.Sym("degree"), b.sizes(0)), [&](const std::vector<Index>& i) {
    return b.Read(0, {i.begin() + 1, i.end()});
  });
}

OpSample ReplicateSample(Rng& rng) {
  return OpSample{.inputs = {RandomTensor(rng, Elements::kAny, 0, 3)}, .attrs = {{"degree", RandomInt(rng, 1, 3)}}};
}

// Blocks with the last `before` elements of the preceding block and the first `after` of the following one, and 0
// outside of the whole: out[p, .., i, ..] = x[g div n, .., g mod n, ..] where 0 <= g < degree*n, with g = p*n + i -
// before, for blocks of n. Negative numbers cut off.
absl::Status HaloMeaning(OpBuilder& b) {
  const int axis = static_cast<int>(b.Int("axis")) + 1;
  RETURN_IF_ERROR(CheckAxis(b, axis, b.rank(0)));
  RETURN_IF_ERROR(CheckElements(b, Elements::kFloats));
  const Index block = b.size(0, axis), before = b.Sym("before");
  const Index size = block + before + b.Sym("after");
  b.Require(block >= 1, "a block must not be empty");
  b.Require(size >= 1, "something must be left of a block");
  return OnlyOutput(b, b.dtype(0), With(b.sizes(0), axis, size), [&](const std::vector<Index>& i) {
    const Index at = i[0] * block + i[axis] - before;
    const Scalar element = b.Read(0, With(With(i, 0, FloorDiv(at, block)), axis, Mod(at, block)));
    return Select(InRange(at, 0, b.size(0, 0) * block), element, 0);
  });
}

OpSample HaloSample(Rng& rng) {
  OpSample sample = OnDevices(rng);
  const int64_t block = sample.inputs[0].shape[std::get<int64_t>(sample.attrs["axis"]) + 1];
  sample.attrs["before"] = RandomInt(rng, -(block - 1), 3);
  sample.attrs["after"] = RandomInt(rng, 0, 3);
  return sample;
}

// The rows of a table that a device has, 0 for those that others have: for blocks of n rows
// out[p, k.., c..] = x[p, j mod n, c..] where j div n = p, else 0, with j = indices[p, k..] mod (degree*n)
absl::Status GatherRowsMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 0, Elements::kFloats));
  RETURN_IF_ERROR(CheckElements(b, 1, Elements::kIntegers));
  if (b.rank(0) < 2 || b.rank(1) < 1) return b.Error("both must be on devices, and x have rows");
  const int picked = b.rank(1);
  const Index degree = b.size(0, 0), block = b.size(0, 1);
  b.Require(block >= 1, "a device must have rows");
  b.Require(degree == b.size(1, 0), "both must be on as many devices");
  std::vector<Index> shape = b.sizes(1);
  for (int axis = 2; axis < b.rank(0); ++axis) shape.push_back(b.size(0, axis));
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    const Index row = Mod(ToIndex(b.Read(1, {i.begin(), i.begin() + picked})), degree * block);
    std::vector<Index> at = {i[0], Mod(row, block)};
    at.insert(at.end(), i.begin() + picked, i.end());
    return Select(FloorDiv(row, block) == i[0], b.Read(0, at), 0);
  });
}

OpSample GatherRowsSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kFloats, 2, 3);
  TensorType indices = RandomTensor(rng, Elements::kIntegers, 1, 3);
  indices.shape[0] = x.shape[0];
  const double rows = static_cast<double>(x.shape[0] * x.shape[1]);
  return OpSample{.inputs = {x, indices}, .attrs = {}, .low = -rows, .high = rows - 1};
}

}  // namespace

OpDef PartitionOp() {
  return OpDef{.name = "partition",
               .summary = "Cuts an axis into as many blocks as there are devices.",
               .inputs = {"x"},
               .attrs = {AxisOfWhole(), Degree()},
               .meaning = PartitionMeaning,
               .sample = PartitionSample};
}

OpDef CombineOp() {
  return OpDef{.name = "combine",
               .summary = "Joins the blocks of all devices along an axis.",
               .inputs = {"x"},
               .attrs = {AxisOfWhole()},
               .meaning = CombineMeaning,
               .sample = OnDevices};
}

OpDef ReplicateOp() {
  return OpDef{.name = "replicate",
               .summary = "Gives every device the tensor.",
               .inputs = {"x"},
               .attrs = {Degree()},
               .meaning = ReplicateMeaning,
               .sample = ReplicateSample};
}

OpDef HaloOp() {
  return OpDef{.name = "halo",
               .summary = "Gives every device the edges of its neighbours' blocks besides its own.",
               .inputs = {"x"},
               .attrs = {AxisOfWhole(), SymbolicInt("before", Attr(0), INT64_MIN, "elements that precede the block"),
                         SymbolicInt("after", Attr(0), INT64_MIN, "elements that follow it")},
               .meaning = HaloMeaning,
               .sample = HaloSample};
}

OpDef GatherRowsOp() {
  return OpDef{.name = "gather_rows",
               .summary = "Looks up the rows of a table that a device has; zeros for rows that others have.",
               .inputs = {"x", "indices"},
               .attrs = {},
               .meaning = GatherRowsMeaning,
               .sample = GatherRowsSample};
}

}  // namespace rewright
