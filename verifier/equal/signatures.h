// Signatures of the values of graphs: a few numbers computed on certain inputs. Values that are equal as functions have
// equal signatures, others hardly ever. They select the pairs that are worth a proof; they prove nothing.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

struct ValueSignature {
  TensorType type;
  double norm = 0;               // Euclidean, of the finite elements
  std::array<double, 4> sums{};  // of the finite elements, with signs that depend on the place alone
  int64_t not_finite = 0;
};

// Equal up to rounding and the rounding of folded weights.
bool Close(const ValueSignature& a, const ValueSignature& b);

struct Observed {
  absl::flat_hash_map<Value, ValueSignature> signatures;  // of all values that depend on inputs
  std::vector<Tensor> a, b;                               // the outputs of the graphs, in f64
};

// Both graphs, of one arena, interpreted in f64 on the inputs (by name). Errors: those of InterpretGraph.
absl::StatusOr<Observed> Observe(const Graph& a, const Graph& b, const absl::flat_hash_map<std::string, Tensor>& inputs,
                                 int threads);

}  // namespace rewright
