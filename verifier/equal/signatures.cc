#include "verifier/equal/signatures.h"

#include <cmath>
#include <utility>

#include "core/base/status_macros.h"
#include "core/base/stop.h"
#include "core/interpreter/interpreter.h"

namespace rewright {
namespace {

// The tolerance relative to the norm: folded weights are rounded to f32, and deep models amplify that.
constexpr double kClose = 1e-4;

// SplitMix64 (Steele, Lea, Flood, 2014): bits that depend on the place alone.
uint64_t BitsOfPlace(uint64_t place) {
  uint64_t z = place + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

ValueSignature SignatureOf(const TensorType& type, const Tensor& tensor) {
  ValueSignature signature;
  signature.type = type;
  double squares = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double x = tensor.At(i);
    if (!std::isfinite(x)) {
      ++signature.not_finite;
      continue;
    }
    squares += x * x;
    const uint64_t bits = BitsOfPlace(static_cast<uint64_t>(i));
    for (size_t k = 0; k < signature.sums.size(); ++k) signature.sums[k] += (bits >> k & 1) != 0 ? x : -x;
  }
  signature.norm = std::sqrt(squares);
  return signature;
}

}  // namespace

bool Close(const ValueSignature& a, const ValueSignature& b) {
  if (a.type != b.type || a.not_finite != b.not_finite) return false;
  const double allowed = kClose * std::max(a.norm, b.norm);
  if (!(std::abs(a.norm - b.norm) <= allowed)) return false;
  for (size_t k = 0; k < a.sums.size(); ++k) {
    if (!(std::abs(a.sums[k] - b.sums[k]) <= 4 * allowed)) return false;
  }
  return true;
}

absl::StatusOr<Observed> Observe(const Graph& a, const Graph& b, const absl::flat_hash_map<std::string, Tensor>& inputs,
                                 int threads) {
  std::vector<Output> outputs;
  for (const Output& output : a.outputs()) outputs.push_back(output);
  for (const Output& output : b.outputs()) outputs.push_back(output);
  const size_t results = outputs.size();
  Graph both(a.arena(), a.inputs(), outputs);
  for (NodeId id : both.nodes()) {
    const Node& node = both.node(id);
    if (!node.reads_input) continue;
    for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) outputs.push_back({{id, k}, ""});
  }
  both = Graph(a.arena(), a.inputs(), outputs);
  ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                   InterpretGraph(both, inputs, {.precision = Precision::kFloat64, .threads = threads}));
  Observed observed;
  for (size_t i = 0; i < results; ++i) (i < a.outputs().size() ? observed.a : observed.b).push_back(values[i]);
  for (size_t i = results; i < values.size(); ++i) {
    if (StopScope::Stopped()) return absl::CancelledError("interrupted");
    observed.signatures.emplace(outputs[i].value, SignatureOf(both.type(outputs[i].value), values[i]));
  }
  return observed;
}

}  // namespace rewright
