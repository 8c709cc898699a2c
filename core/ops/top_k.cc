// An opaque operator: in expressions, the rank of an element is a count over all others, which would be too slow.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// Orders elements as numbers, with NaN greater than all (as in numpy and PyTorch; ONNX does not define it). -0 and 0
// are equal.
template <typename T>
bool IsLess(T a, T b) {
  return a < b || (a == a && b != b);
}

// The rows of x along the axis lie `step` elements apart, and so do those of the outputs.
template <typename T>
void TopK(const Tensor& x, int64_t axis, bool largest, Tensor* values, Tensor* indices) {
  const Shape& shape = x.shape();
  const int64_t size = shape[axis], k = values->shape()[axis];
  const int64_t step = std::accumulate(shape.begin() + axis + 1, shape.end(), int64_t{1}, std::multiplies<>());
  if (k == 0 || x.num_elements() == 0) return;
  const int64_t outer = x.num_elements() / (size * step);
  std::vector<int64_t> order(size);
  for (int64_t row = 0; row < outer * step; ++row) {
    const T* from = x.as<T>() + row / step * size * step + row % step;
    const int64_t to = row / step * k * step + row % step;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t i, int64_t j) {
      const T a = from[i * step], b = from[j * step];
      if (largest ? IsLess(b, a) : IsLess(a, b)) return true;
      return !(largest ? IsLess(a, b) : IsLess(b, a)) && i < j;
    });
    for (int64_t i = 0; i < k; ++i) {
      values->as<T>()[to + i * step] = from[order[i] * step];
      indices->as<int64_t>()[to + i * step] = order[i];
    }
  }
}

// values[.., i, ..] = x[.., indices[.., i, ..], ..], where indices[.., 0.., ..] are the positions along the axis of the
// k largest (or smallest) elements in order; equal elements come in order of position.
absl::Status TopKMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, Elements::kNumbers));
  const int64_t axis = b.Int("axis");
  const bool largest = b.Flag("largest");
  const Index k = b.Sym("k");
  b.Require(k <= b.size(0, static_cast<int>(axis)), "k must not exceed the size of the axis");
  const std::vector<Index> shape = With(b.sizes(0), static_cast<int>(axis), k);
  const auto reference = [axis, largest](const Bindings&, const std::vector<Tensor>& inputs,
                                         std::vector<Tensor>* outputs) {
    Tensor* values = &(*outputs)[0];
    Tensor* indices = &(*outputs)[1];
    VisitDType(inputs[0].dtype(),
               [&](auto t) { TopK<typename decltype(t)::Type>(inputs[0], axis, largest, values, indices); });
    return absl::OkStatus();
  };
  b.Opaque({{b.dtype(0), shape}, {DType::kInt64, shape}}, reference, Product(b.sizes(0)));
  return absl::OkStatus();
}

OpSample TopKSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kNumbers, 1, 4);
  const int64_t axis = RandomInt(rng, 0, x.rank() - 1);
  return OpSample{
      .inputs = {x},
      .attrs = {{"axis", axis}, {"k", RandomInt(rng, 1, x.shape[axis])}, {"largest", RandomInt(rng, 0, 1)}}};
}

}  // namespace

OpDef TopKOp() {
  return OpDef{.name = "top_k",
               .summary = "The k largest or smallest elements along an axis, in order, and their indices.",
               .inputs = {"x"},
               .attrs = {AxisAttr("axis", Attr(-1), "axis along which elements are compared"),
                         SymbolicInt("k", std::nullopt, 0, "how many elements are kept"),
                         FlagAttr("largest", true, "whether the largest come first, else the smallest")},
               .meaning = TopKMeaning,
               .sample = TopKSample};
}

}  // namespace rewright
