#include "tools/verbs/diff/other_inputs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/graph_numbers.h"
#include "core/ir/random_tensors.h"
#include "core/tensor/compare.h"

namespace rewright {
namespace {

constexpr double kMostFlops = 1e9;

// The inputs of integers that index nothing.
std::vector<size_t> FreeIntegers(const Graph& graph) {
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value input = graph.inputs()[i];
    if (IsInteger(graph.type(input).dtype) && IndexedSize(graph, input) == 0) found.push_back(i);
  }
  return found;
}

std::vector<size_t> Reals(const Graph& graph) {
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (IsFloating(graph.type(graph.inputs()[i]).dtype)) found.push_back(i);
  }
  return found;
}

// Multiples of 1/2 from -8 to 8.
Tensor Halves(const TensorType& type, Rng& rng) {
  Tensor tensor = RandomTensor(type, rng, -16.5, 16.5);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, std::round(tensor.At(i)) / 2);
  return tensor;
}

absl::StatusOr<std::vector<Tensor>> OfNames(const Graph& graph, const absl::flat_hash_map<std::string, Tensor>& inputs,
                                            int threads, const std::vector<Output>& order) {
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                   InterpretGraph(graph, inputs, {.precision = Precision::kFloat64, .threads = threads}));
  std::vector<Tensor> result;
  for (const Output& output : order) {
    const auto named = [&](const Output& other) { return other.name == output.name; };
    const auto found = std::find_if(graph.outputs().begin(), graph.outputs().end(), named);
    result.push_back(outputs[static_cast<size_t>(found - graph.outputs().begin())]);
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<OtherInputs>> DrawOtherInputs(const Graph& a, const Graph& b,
                                                         const std::vector<Tensor>& ordinary, uint64_t seed) {
  std::vector<OtherInputs> sets;
  const auto draw = [&](const std::string& kind, Magnitude magnitude, const std::vector<size_t>& changed,
                        bool moves_reals) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<Tensor> drawn,
                     StressInputs(a, seed, std::vector<Magnitude>(ordinary.size(), magnitude)));
    sets.push_back({kind, ordinary, moves_reals});
    for (const size_t i : changed) sets.back().tensors[i] = drawn[i];
    return absl::OkStatus();
  };
  std::vector<size_t> integers = FreeIntegers(a);
  const std::vector<size_t> reals = Reals(a);
  if (FreeIntegers(b).size() != integers.size()) integers.clear();
  if (!integers.empty()) {
    RETURN_IF_ERROR(draw("integers up to 8", Magnitude::kOrdinary, integers, false));
    RETURN_IF_ERROR(draw("integers up to 1000", Magnitude::kLarge, integers, false));
    RETURN_IF_ERROR(draw("integers at the ends of their types", Magnitude::kExtreme, integers, false));
  }
  if (std::max(FeaturesOf(a).flops, FeaturesOf(b).flops) > kMostFlops) return sets;
  if (!reals.empty()) {
    RETURN_IF_ERROR(draw("small reals", Magnitude::kSmall, reals, true));
    RETURN_IF_ERROR(draw("large reals", Magnitude::kLarge, reals, true));
    const bool has_f16 =
        std::any_of(reals.begin(), reals.end(), [&](size_t i) { return ordinary[i].dtype() == DType::kFloat16; });
    if (has_f16) RETURN_IF_ERROR(draw("reals at the end of f16", Magnitude::kExtreme, reals, true));
    sets.push_back({"halves", ordinary, true});
    Rng rng(seed);
    for (const size_t i : reals) sets.back().tensors[i] = Halves(ordinary[i].type(), rng);
  }
  for (const std::vector<double>& numbers : NumbersOf({&a, &b}, kSetsAround)) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> drawn, InputsAround(a, seed, numbers));
    sets.push_back({absl::StrCat("numbers around ", numbers.front()), ordinary, true});
    for (const std::vector<size_t>& changed : {integers, reals}) {
      for (const size_t i : changed) sets.back().tensors[i] = drawn[i];
    }
  }
  return sets;
}

std::vector<Tensor> WhereNumbersAre(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual) {
  std::vector<Tensor> result;
  for (size_t o = 0; o < expected.size(); ++o) result.push_back(WhereNumbersAre(expected[o], actual[o]));
  return result;
}

bool LosesNumbers(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual) {
  for (size_t o = 0; o < expected.size(); ++o) {
    if (!IsFloating(expected[o].dtype())) continue;
    for (int64_t i = 0; i < expected[o].num_elements(); ++i) {
      if (std::isfinite(expected[o].At(i)) && !std::isfinite(actual[o].At(i))) return true;
    }
  }
  return false;
}

bool DifferInF64(const Graph& a, const Graph& b, const std::vector<Tensor>& inputs, const Tolerance& tolerance,
                 int threads) {
  absl::flat_hash_map<std::string, Tensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace(a.node(a.inputs()[i].node).name, inputs[i]);
  const auto of_a = OfNames(a, named, threads, a.outputs()), of_b = OfNames(b, named, threads, a.outputs());
  if (!of_a.ok() || !of_b.ok()) return false;
  std::vector<std::string> names;
  for (const Output& output : a.outputs()) names.push_back(output.name);
  return !DiffOutputs(names, *of_a, WhereNumbersAre(*of_a, *of_b), tolerance).equal;
}

}  // namespace rewright
