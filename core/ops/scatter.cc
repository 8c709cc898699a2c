// Sums over the updates that an index sends to a position: the transposed forms of gathers.
//
// An index -n <= k < 0 counts from the end of an axis of size n. A run of a model reports other indices as errors
// (core/ir/index_range.h); proofs cover them too, modulo n.
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

constexpr const char* kEmptyAxis = "the axis must not be empty";

absl::Status CheckScatter(const OpBuilder& b) {
  if (b.dtype(0) != b.dtype(2)) return b.Error("x and updates must have one type");
  return FirstError({CheckElements(b, 0, Elements::kNumbers), CheckElements(b, 1, Elements::kIntegers)});
}

}  // namespace

// x[a.., n, c..], indices[b..], updates[a.., b.., c..]:
//   out[i.., j, l..] = x[i.., j, l..] + sum k..: updates[i.., k.., l..] where indices[k..] mod n = j
static absl::Status ScatterAddMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckScatter(b));
  const int axis = static_cast<int>(b.Int("axis"));
  const int picked = b.rank(1);
  if (b.rank(2) != b.rank(0) - 1 + picked) {
    return b.Error("updates must have the axes of indices in the place of the axis");
  }
  b.Require(b.size(0, axis) >= 1, kEmptyAxis);
  OpBuilder::Ranges ranges;
  for (int k = 0; k < picked; ++k) {
    ranges.emplace_back("k" + std::to_string(k), b.size(1, k));
    b.Require(b.size(1, k) == b.size(2, axis + k), "updates must have the sizes of indices in the place of the axis");
  }
  for (int k = 0; k < b.rank(0); ++k) {
    if (k == axis) continue;
    b.Require(b.size(0, k) == b.size(2, k < axis ? k : k - 1 + picked), "other sizes of updates must be those of x");
  }
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    const auto update = [&](const std::vector<Index>& k) {
      std::vector<Index> at(i.begin(), i.begin() + axis);
      at.insert(at.end(), k.begin(), k.end());
      at.insert(at.end(), i.begin() + axis + 1, i.end());
      return b.Read(2, at);
    };
    const auto comes_here = [&](const std::vector<Index>& k) {
      return Mod(ToIndex(b.Read(1, k)), b.size(0, axis)) == i[axis];
    };
    return b.Read(0, i) + b.Reduce(ReduceKind::kSum, ranges, update, comes_here);
  });
}

static OpSample ScatterAddSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kNumbers, 1, 3);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  const TensorType indices = RandomTensor(rng, Elements::kIntegers, 0, 2);
  Shape updates(x.shape.begin(), x.shape.begin() + axis);
  updates.insert(updates.end(), indices.shape.begin(), indices.shape.end());
  updates.insert(updates.end(), x.shape.begin() + axis + 1, x.shape.end());
  return IndexSample({x, indices, {x.dtype, updates}}, axis);
}

OpDef ScatterAddOp() {
  return OpDef{.name = "scatter_add",
               .summary = "Adds slices to those of a tensor along an axis that indices name; gather, transposed.",
               .inputs = {"x", "indices", "updates"},
               .attrs = {AxisAttr("axis", Attr(0), "axis of x that the indices count along")},
               .meaning = ScatterAddMeaning,
               .sample = ScatterAddSample};
}

// x[a.., n, c..], indices and updates[a'.., k, c'..] with a' <= a and c' <= c:
//   out[i.., j, l..] = x[i.., j, l..] + sum k: updates[i.., k, l..] where indices[i.., k, l..] mod n = j
static absl::Status ScatterElementsAddMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckScatter(b));
  const int axis = static_cast<int>(b.Int("axis"));
  if (b.rank(1) != b.rank(0) || b.rank(2) != b.rank(0)) return b.Error("the inputs must have one rank");
  b.Require(b.size(0, axis) >= 1, kEmptyAxis);
  for (int k = 0; k < b.rank(0); ++k) {
    b.Require(b.size(1, k) == b.size(2, k), "updates must have the shape of indices");
    if (k != axis) b.Require(b.size(1, k) <= b.size(0, k), "indices must not be larger than x");
  }
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    const auto at = [&](const std::vector<Index>& k) { return With(i, axis, k[0]); };
    const auto comes_here = [&](const std::vector<Index>& k) {
      Cond exists(true);
      for (int other = 0; other < b.rank(0); ++other) {
        if (other != axis) exists = exists && i[other] < b.size(1, other);
      }
      return exists && Mod(ToIndex(b.Read(1, at(k))), b.size(0, axis)) == i[axis];
    };
    const auto update = [&](const std::vector<Index>& k) { return b.Read(2, at(k)); };
    return b.Read(0, i) + b.Reduce(ReduceKind::kSum, {{"k", b.size(1, axis)}}, update, comes_here);
  });
}

static OpSample ScatterElementsAddSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kNumbers, 1, 3);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  const Shape shape = RandomElements(rng, x.shape, axis);
  return IndexSample({x, {RandomDType(rng, Elements::kIntegers), shape}, {x.dtype, shape}}, axis);
}

OpDef ScatterElementsAddOp() {
  return OpDef{.name = "scatter_elements_add",
               .summary = "Adds elements to those of a tensor that indices name along an axis.",
               .inputs = {"x", "indices", "updates"},
               .attrs = {AxisAttr("axis", Attr(0), "axis of x that the indices count along")},
               .meaning = ScatterElementsAddMeaning,
               .sample = ScatterElementsAddSample};
}

}  // namespace rewright
