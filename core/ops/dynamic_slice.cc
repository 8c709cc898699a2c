// Windows whose position depends on data: one scalar operand for each axis gives its start. A start is moved so that
// the window lies inside.
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// Checks that from input `first` on there is one integer scalar for each axis of input 0.
absl::Status CheckStarts(const OpBuilder& b, int first) {
  if (b.num_inputs() != first + b.rank(0)) return b.Error("there must be one start for each axis of x");
  for (int input = first; input < b.num_inputs(); ++input) {
    RETURN_IF_ERROR(FirstError({CheckElements(b, input, Elements::kIntegers), CheckRank(b, input, 0)}));
  }
  return absl::OkStatus();
}

// Returns the begin of a window of the given sizes along each axis of input 0: max(0, min(start, n - size)).
std::vector<Index> Starts(OpBuilder& b, int first, const std::vector<Index>& sizes) {
  std::vector<Index> starts;
  for (int axis = 0; axis < b.rank(0); ++axis) {
    b.Require(sizes[axis] <= b.size(0, axis), "the window must not exceed x");
    const Index start = ToIndex(b.Read(first + axis, {}));
    starts.push_back(Max(0, Min(start, b.size(0, axis) - sizes[axis])));
  }
  return starts;
}

// Draws a tensor, the sizes of a window in it, and starts that lie inside and outside.
OpSample RandomWindow(Rng& rng, Shape* window) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 1, 4);
  for (int64_t size : x.shape) window->push_back(RandomInt(rng, 1, size));
  OpSample sample{.inputs = {x}, .attrs = {}, .low = -3, .high = 8};
  const DType dtype = RandomDType(rng, Elements::kIntegers);
  sample.inputs.insert(sample.inputs.end(), x.shape.size(), TensorType{dtype, {}});
  return sample;
}

}  // namespace

// s = max(0, min(start, n - size)) along every axis: out[.., i, ..] = x[.., s + i, ..]
static absl::Status DynamicSliceMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(FirstError({CheckLength(b, "sizes", b.rank(0)), CheckStarts(b, 1)}));
  const std::vector<Index> sizes = Symbols(b, "sizes");
  const std::vector<Index> starts = Starts(b, 1, sizes);
  return OnlyOutput(b, b.dtype(0), sizes, [&](std::vector<Index> i) {
    for (int axis = 0; axis < b.rank(0); ++axis) i[axis] = starts[axis] + i[axis];
    return b.Read(0, i);
  });
}

static OpSample DynamicSliceSample(Rng& rng) {
  Shape window;
  OpSample sample = RandomWindow(rng, &window);
  sample.attrs["sizes"] = window;
  return sample;
}

OpDef DynamicSliceOp() {
  return OpDef{.name = "dynamic_slice",
               .summary = "Cuts out a window; scalar operands, one per axis, say where it begins.",
               .inputs = {"x", "start"},
               .variadic = true,
               .attrs = {SymbolicInts("sizes", std::nullopt, 0, "the shape of the window")},
               .meaning = DynamicSliceMeaning,
               .sample = DynamicSliceSample};
}

// s = max(0, min(start, n - m)) along every axis, of sizes n of x and m of update:
//   out[.., i, ..] = 0 <= i - s < m along every axis ? update[.., i - s, ..] : x[.., i, ..]
static absl::Status DynamicUpdateSliceMeaning(OpBuilder& b) {
  if (b.dtype(0) != b.dtype(1)) return b.Error("x and update must have one element type");
  RETURN_IF_ERROR(FirstError({CheckRank(b, 1, b.rank(0)), CheckStarts(b, 2)}));
  const std::vector<Index> starts = Starts(b, 2, b.sizes(1));
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) {
    std::vector<Index> at;
    Cond inside = true;
    for (int axis = 0; axis < b.rank(0); ++axis) {
      at.push_back(i[axis] - starts[axis]);
      inside = inside && InRange(at.back(), 0, b.size(1, axis));
    }
    return Select(inside, b.Read(1, at), b.Read(0, i));
  });
}

static OpSample DynamicUpdateSliceSample(Rng& rng) {
  Shape window;
  OpSample sample = RandomWindow(rng, &window);
  sample.inputs.insert(sample.inputs.begin() + 1, TensorType{sample.inputs[0].dtype, window});
  return sample;
}

OpDef DynamicUpdateSliceOp() {
  return OpDef{.name = "dynamic_update_slice",
               .summary = "Overwrites a window; scalar operands, one per axis, say where it begins.",
               .inputs = {"x", "update", "start"},
               .variadic = true,
               .attrs = {},
               .meaning = DynamicUpdateSliceMeaning,
               .sample = DynamicUpdateSliceSample};
}

}  // namespace rewright
