#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// x[a.., k, c..], indices[b..]:  out[a.., b.., c..] = x[a.., indices[b..] mod n, c..]
// where n is the size of the axis: an index -n <= k < 0 counts from the end. A run of a model reports other indices as
// errors (core/ir/index_range.h); proofs cover them too.
static absl::Status GatherMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 1, Elements::kIntegers));
  const int axis = static_cast<int>(b.Int("axis"));
  const int picked = b.rank(1);
  const std::vector<Index> sizes = b.sizes(0);
  const std::vector<Index> picks = b.sizes(1);
  b.Require(sizes[axis] >= 1, "the axis must not be empty");
  std::vector<Index> shape(sizes.begin(), sizes.begin() + axis);
  shape.insert(shape.end(), picks.begin(), picks.end());
  shape.insert(shape.end(), sizes.begin() + axis + 1, sizes.end());
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    const auto begin = i.begin() + axis;
    const Scalar index = b.Read(1, {begin, begin + picked});
    std::vector<Index> at(i.begin(), begin);
    at.push_back(Mod(ToIndex(index), sizes[axis]));
    at.insert(at.end(), begin + picked, i.end());
    return b.Read(0, at);
  });
}

static OpSample GatherSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 1, 3);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  return IndexSample({x, RandomTensor(rng, Elements::kIntegers, 0, 2)}, axis);
}

OpDef GatherOp() {
  return OpDef{.name = "gather",
               .summary = "Picks slices of a tensor along an axis by their indices.",
               .inputs = {"x", "indices"},
               .attrs = {AxisAttr("axis", Attr(0), "axis of x that the indices count along")},
               .meaning = GatherMeaning,
               .sample = GatherSample};
}

// x[a.., n, c..], indices[a'.., k.., c'..] with a' <= a and c' <= c:  out[i.., k, l..] = x[i.., indices[i.., k, l..]
// mod n, l..]
static absl::Status GatherElementsMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 1, Elements::kIntegers));
  const int axis = static_cast<int>(b.Int("axis"));
  if (b.rank(1) != b.rank(0)) return b.Error("the inputs must have one rank");
  b.Require(b.size(0, axis) >= 1, "the axis must not be empty");
  for (int k = 0; k < b.rank(0); ++k) {
    if (k != axis) b.Require(b.size(1, k) <= b.size(0, k), "indices must not be larger than x");
  }
  return OnlyOutput(b, b.dtype(0), b.sizes(1), [&](const std::vector<Index>& i) {
    return b.Read(0, With(i, axis, Mod(ToIndex(b.Read(1, i)), b.size(0, axis))));
  });
}

static OpSample GatherElementsSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 1, 3);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  const Shape shape = RandomElements(rng, x.shape, axis);
  return IndexSample({x, {RandomDType(rng, Elements::kIntegers), shape}}, axis);
}

OpDef GatherElementsOp() {
  return OpDef{.name = "gather_elements",
               .summary = "Picks elements of a tensor along an axis, each position by an index of its own.",
               .inputs = {"x", "indices"},
               .attrs = {AxisAttr("axis", Attr(0), "axis of x that the indices count along")},
               .meaning = GatherElementsMeaning,
               .sample = GatherElementsSample};
}

}  // namespace rewright
