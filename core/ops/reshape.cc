#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// Returns the row-major number of a position.
Index LinearIndex(const std::vector<Index>& position, const std::vector<Index>& shape) {
  Index linear = 0;
  for (size_t k = 0; k < position.size(); ++k) linear = linear * shape[k] + position[k];
  return linear;
}

// The position at a place in row-major order.
std::vector<Index> PositionOf(const Index& linear, const std::vector<Index>& shape) {
  std::vector<Index> position(shape.size());
  Index block = 1;  // elements per step of axis k
  for (size_t k = shape.size(); k-- > 0;) {
    const Index step = FloorDiv(linear, block);
    position[k] = k > 0 ? Mod(step, shape[k]) : step;
    block = shape[k] * block;
  }
  return position;
}

// Draws a shape with as many elements.
Shape RandomReshape(Rng& rng, const Shape& shape) {
  Shape result;
  for (int64_t size : shape) {
    const int64_t choice = RandomInt(rng, 0, 3);
    if (choice == 0 && !result.empty()) {
      result.back() *= size;
    } else if (choice == 1) {
      result.insert(result.end(), {1, size});
    } else if (choice == 2 && size % 2 == 0) {
      result.insert(result.end(), {2, size / 2});
    } else {
      result.push_back(size);
    }
  }
  return result;
}

}  // namespace

// out[i..] = x[j..] where i.. in out and j.. in x have the same row-major number.
static absl::Status ReshapeMeaning(OpBuilder& b) {
  const std::vector<Index> shape = Symbols(b, "shape");
  const std::vector<Index> old_shape = b.sizes(0);
  b.Require(Product(old_shape) == Product(shape), "the numbers of elements must be equal");
  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    return b.Read(0, PositionOf(LinearIndex(i, shape), old_shape));
  });
}

static OpSample ReshapeSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kAny, 0, 4);
  return OpSample{.inputs = {x}, .attrs = {{"shape", RandomReshape(rng, x.shape)}}};
}

OpDef ReshapeOp() {
  return OpDef{.name = "reshape",
               .summary = "Gives the elements, kept in row-major order, another shape.",
               .inputs = {"x"},
               .attrs = {SymbolicInts("shape", std::nullopt, 1, "the new shape")},
               .meaning = ReshapeMeaning,
               .sample = ReshapeSample};
}

}  // namespace rewright
