#include "verifier/ranks/reciprocals.h"

#include <cmath>

#include "core/base/status_macros.h"

namespace rewright {
namespace {

// The n of which all elements are the rounded reciprocal; 0: there is none, or they are 1/n as they are.
int64_t DivisorOf(const Tensor& tensor) {
  constexpr double kMost = 1 << 20;
  if (tensor.dtype() != DType::kFloat32 || tensor.num_elements() == 0) return 0;
  const double element = tensor.At(0), divisor = std::round(1 / element);
  if (!(divisor > 1) || divisor > kMost || element * divisor == 1) return 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.At(i) != static_cast<double>(static_cast<float>(1 / divisor))) return 0;
  }
  return static_cast<int64_t>(divisor);
}

Tensor AllOf(const TensorType& type, double element) {
  Tensor tensor(type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, element);
  return tensor;
}

}  // namespace

absl::StatusOr<Graph> WithQuotients(const Graph& graph) {
  Arena& arena = *graph.arena();
  ValueMap quotients;
  for (NodeId id : graph.nodes()) {
    const Tensor* elements = arena.KnownElements(id);
    const int64_t divisor = elements == nullptr ? 0 : DivisorOf(*elements);
    if (divisor == 0) continue;
    const Value one = arena.AddConstant(AllOf(elements->type(), 1));
    const Value by = arena.AddConstant(AllOf(elements->type(), static_cast<double>(divisor)));
    ASSIGN_OR_RETURN((quotients[{id, 0}]), arena.Apply("div", {one, by}));
  }
  return ReplaceValues(graph, quotients);
}

}  // namespace rewright
