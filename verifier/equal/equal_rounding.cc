#include "verifier/equal/equal_rounding.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/graph_numbers.h"
#include "core/ir/random_tensors.h"
#include "core/numerics/error_estimate.h"
#include "core/numerics/ranges.h"
#include "core/tensor/compare.h"

namespace rewright {
namespace {

constexpr int kSamples = 3;
// The tolerance of an element is this many times its mean change in the samples, and at least half of the mean change
// of the output's elements: three samples of one element may all be small by chance.
constexpr double kMargin = 8;
constexpr double kLeast = 0.5;

// Whole numbers of ordinary size are taken to be exact.
bool MayBeRounded(double x, double half_unit) {
  return std::isfinite(x) && (x != std::trunc(x) || std::abs(x) >= 1 / half_unit);
}

bool IsRounded(DType dtype) { return IsFloating(dtype) && dtype != DType::kFloat64; }

// Every element moved by a half to a whole of half a unit in the last place, up or down.
void MoveByHalfUnits(DType dtype, std::mt19937_64& rng, Tensor* elements) {
  std::uniform_real_distribution<double> distance(0.5, 1);
  const double half_unit = RoundingOf(dtype);
  for (int64_t i = 0; i < elements->num_elements(); ++i) {
    const double x = elements->At(i);
    elements->Set(i, x + (rng() & 1 ? 1 : -1) * distance(rng) * half_unit * std::abs(x));
  }
}

// Numbers that may be rounded move by a unit in the last place: up in the first sample, down in the second, each as it
// is drawn in others.
void MoveTogether(DType dtype, int sample, std::mt19937_64& rng, Tensor* elements) {
  const double half_unit = RoundingOf(dtype);
  const double sign = sample == 0 ? 1 : sample == 1 ? -1 : rng() & 1 ? 1 : -1;
  for (int64_t i = 0; i < elements->num_elements(); ++i) {
    const double x = elements->At(i);
    if (MayBeRounded(x, half_unit)) elements->Set(i, x * (1 + sign * 2 * half_unit));
  }
}

// The elements of a floating tensor in f64, in memory of their own.
Tensor WideCopy(const Tensor& tensor) {
  Tensor copy(TensorType{DType::kFloat64, tensor.shape()});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) copy.Set(i, tensor.At(i));
  return copy;
}

using LeafElements = std::function<std::optional<Tensor>(NodeId)>;

absl::StatusOr<std::vector<Tensor>> InF64(const Graph& graph, const NamedTensors& inputs, int threads,
                                          const LeafElements& elements = nullptr) {
  return InterpretGraph(graph, inputs, {.precision = Precision::kFloat64, .threads = threads, .elements = elements});
}

// The tensors in the order of Graph::inputs().
std::vector<Tensor> InOrder(const Graph& graph, const NamedTensors& inputs) {
  std::vector<Tensor> tensors;
  for (Value input : graph.inputs()) tensors.push_back(inputs.at(graph.node(input.node).name));
  return tensors;
}

NamedTensors ByName(const Graph& graph, const std::vector<Tensor>& tensors) {
  NamedTensors inputs;
  for (size_t i = 0; i < tensors.size(); ++i) inputs.emplace(graph.node(graph.inputs()[i].node).name, tensors[i]);
  return inputs;
}

}  // namespace

bool Decides(const Graph& a, const Graph& b) {
  for (const Graph* graph : {&a, &b}) {
    Numerics numerics;
    const absl::flat_hash_map<Value, Decisions> decisions = numerics.DecisionsOf(*graph);
    for (NodeId id : graph->nodes()) {
      if (graph->node(id).op != nullptr || !IsFloating(graph->type({id, 0}).dtype)) continue;
      const auto found = decisions.find(Value{id, 0});
      if (found != decisions.end() && found->second.Any()) return true;
    }
  }
  return false;
}

// The outputs of a graph when the values that only it has are moved.
absl::StatusOr<std::vector<Tensor>> KnownRounding::Moved(const Graph& graph, const Graph& other,
                                                         const NamedTensors& inputs, int sample) const {
  Arena& arena = *graph.arena();
  std::mt19937_64 rng(seed_ + static_cast<uint64_t>(sample));
  // A leaf is moved the same way for each node that reads it, when that is computed.
  const LeafElements moved_leaf = [&](NodeId id) -> std::optional<Tensor> {
    const Tensor* elements = arena.Elements(id);
    if (elements == nullptr || other.contains(id) || !IsRounded(elements->dtype())) return std::nullopt;
    std::mt19937_64 of_leaf((seed_ + static_cast<uint64_t>(sample)) ^ (arena.node(id).hash | 1));
    Tensor copy = WideCopy(*elements);
    if (arena.node(id).leaf == LeafKind::kState) {
      MoveByHalfUnits(elements->dtype(), of_leaf, &copy);
    } else {
      MoveTogether(elements->dtype(), sample, of_leaf, &copy);
    }
    return copy;
  };
  NamedTensors moved = inputs;
  // Folded values are as the leaves that moved make them, and as their own types round them on the way.
  std::vector<Output> folded;
  for (Value value : FoldedValues(graph)) {
    if (IsRounded(arena.type(value).dtype) && !other.contains(value.node)) folded.push_back({value, ""});
  }
  ValueMap instead;
  if (!folded.empty()) {
    std::vector<Value> values;
    for (const Output& output : folded) values.push_back(output.value);
    const Graph known(graph.arena(), {}, folded);
    ASSIGN_OR_RETURN(const std::vector<Tensor> own, ComputeKnown(graph.arena(), values, threads_));
    ASSIGN_OR_RETURN(const std::vector<Tensor> exact, InF64(known, {}, threads_));
    ASSIGN_OR_RETURN(const std::vector<Tensor> shifted, InF64(known, {}, threads_, moved_leaf));
    for (size_t v = 0; v < values.size(); ++v) {
      Tensor elements(exact[v].type());
      for (int64_t i = 0; i < elements.num_elements(); ++i) {
        elements.Set(i, shifted[v].At(i) + (own[v].At(i) - exact[v].At(i)));
      }
      MoveByHalfUnits(own[v].dtype(), rng, &elements);
      const std::string name = absl::StrCat("moved ", values[v].node, ".", values[v].output);
      moved[name] = std::move(elements);
      ASSIGN_OR_RETURN(instead[values[v]], arena.AddInput(name, arena.type(values[v])));
    }
  }
  ASSIGN_OR_RETURN(const Graph run, ReplaceValues(graph, instead));
  return InF64(run, moved, threads_, moved_leaf);
}

absl::StatusOr<std::vector<Tensor>> KnownRounding::Allowed(const NamedTensors& inputs, const std::vector<Tensor>& a,
                                                           const std::vector<Tensor>& b, bool jumps) const {
  std::vector<Tensor> allowed;
  for (const Tensor& output : a) allowed.emplace_back(TensorType{DType::kFloat64, output.shape()});
  for (int side = 0; side < 2; ++side) {
    const Graph &graph = *graphs_[side], &other = *graphs_[1 - side];
    const std::vector<Tensor>& outputs = side == 0 ? a : b;
    std::vector<Tensor> squares;
    for (const Tensor& output : outputs) squares.emplace_back(TensorType{DType::kFloat64, output.shape()});
    std::vector<double> greatest(outputs.size());
    for (int sample = 0; sample < kSamples; ++sample) {
      ASSIGN_OR_RETURN(const std::vector<Tensor> moved, Moved(graph, other, inputs, sample));
      for (size_t o = 0; o < outputs.size(); ++o) {
        for (int64_t i = 0; i < outputs[o].num_elements(); ++i) {
          const double x = outputs[o].At(i), y = moved[o].At(i);
          const double by = x == y || (std::isnan(x) && std::isnan(y)) ? 0 : std::abs(x - y);
          squares[o].Set(i, squares[o].At(i) + by * by / kSamples);
          greatest[o] = std::max(greatest[o], by);
        }
      }
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const int64_t count = squares[o].num_elements();
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += squares[o].At(i);
      const double least =
          jumps ? greatest[o] : kLeast * std::sqrt(sum / static_cast<double>(std::max<int64_t>(count, 1)));
      for (int64_t i = 0; i < count; ++i) {
        const double by = kMargin * std::max(least, std::sqrt(squares[o].At(i)));
        allowed[o].Set(i, allowed[o].At(i) + by);
      }
    }
  }
  return allowed;
}

std::optional<BothRound> RoundingOfBoth(const Graph& a, const Graph& b, const NamedTensors& inputs,
                                        const std::string& output, int64_t element, int threads) {
  BothRound both;
  double squares = 0;
  for (const Graph* graph : {&a, &b}) {
    ErrorOptions options;
    options.at[output] = {element};
    options.threads = threads;
    const absl::StatusOr<ErrorEstimate> estimate = EstimateErrors(*graph, InOrder(*graph, inputs), options);
    if (!estimate.ok() || estimate->looks.size() != 1 || !estimate->blocked.empty()) return std::nullopt;
    both.worst += estimate->looks[0].worst;
    squares += estimate->looks[0].typical * estimate->looks[0].typical;
  }
  both.typical = std::sqrt(squares);
  return both;
}

namespace {

// The element at which tensors of a type are furthest apart; the largest of a where all are equal.
int64_t FurthestApart(const Tensor& a, const Tensor& b) {
  const Comparison comparison = Compare(a, b);
  if (comparison.worst >= 0) return comparison.worst;
  int64_t largest = 0;
  for (int64_t i = 1; i < a.num_elements(); ++i) {
    if (std::abs(a.At(i)) > std::abs(a.At(largest))) largest = i;
  }
  return largest;
}

// Notes the first element of each output that is an infinity or no number in one model and something else in the other.
void NoteInfinite(const Graph& graph, const NamedTensors& inputs, const std::string& kind, const std::vector<Tensor>& a,
                  const std::vector<Tensor>& b, EqualResult* result) {
  for (size_t o = 0; o < a.size(); ++o) {
    const std::string& output = graph.outputs()[o].name;
    const bool known = std::any_of(result->infinite.begin(), result->infinite.end(),
                                   [&](const InfiniteDifference& one) { return one.output == output; });
    if (known || !IsFloating(a[o].dtype())) continue;
    for (int64_t i = 0; i < a[o].num_elements(); ++i) {
      const double x = a[o].At(i), y = b[o].At(i);
      if ((std::isfinite(x) && std::isfinite(y)) || x == y || (std::isnan(x) && std::isnan(y))) continue;
      InfiniteDifference found{output, PositionOf(a[o].shape(), i), x, y, kind, {}};
      for (Value input : graph.inputs()) {
        const std::string& name = graph.node(input.node).name;
        found.inputs.emplace_back(name, inputs.at(name));
      }
      result->infinite.push_back(std::move(found));
      break;
    }
  }
}

// One element in eight of floating inputs an infinity, of either sign.
NamedTensors WithInfinities(const NamedTensors& ordinary, uint64_t seed) {
  NamedTensors inputs;
  for (const auto& [name, tensor] : ordinary) {
    if (!IsFloating(tensor.dtype())) {
      inputs.emplace(name, tensor);
      continue;
    }
    Tensor copy(tensor.type());
    std::mt19937_64 rng(seed + name.size());
    for (int64_t i = 0; i < copy.num_elements(); ++i) {
      const double infinity = (rng() & 1 ? 1 : -1) * std::numeric_limits<double>::infinity();
      copy.Set(i, rng() % 8 == 0 ? infinity : tensor.At(i));
    }
    inputs.emplace(name, std::move(copy));
  }
  return inputs;
}

}  // namespace

void RunInOwnPrecision(const Graph& a, const Graph& b, const std::vector<std::vector<double>>& numbers,
                       const EqualOptions& options, int64_t least_integer, EqualResult* result) {
  const size_t count = a.outputs().size();
  // The outputs of a, then those of b.
  const auto run = [&](const NamedTensors& set, const std::string& kind) -> std::optional<std::vector<Tensor>> {
    auto of_a = InterpretGraph(a, set, {.threads = options.threads});
    auto of_b = InterpretGraph(b, set, {.threads = options.threads});
    if (!of_a.ok() || !of_b.ok()) return std::nullopt;  // inputs that a model does not admit
    NoteInfinite(a, set, kind, *of_a, *of_b, result);
    of_a->insert(of_a->end(), of_b->begin(), of_b->end());
    return std::move(*of_a);
  };
  double furthest = -1;  // the greatest difference, of the output's largest element
  NamedTensors at_furthest;
  int64_t furthest_at = 0;
  const auto compare = [&](const NamedTensors& set, const std::string& kind) -> bool {
    const auto outputs = run(set, kind);
    if (!outputs) return false;
    for (size_t o = 0; o < count; ++o) {
      const Tensor &x = (*outputs)[o], &y = (*outputs)[count + o];
      if (x.num_elements() == 0) continue;
      const double largest = LargestMagnitude(x), apart = Compare(WhereNumbersAre(x, y), x).max_abs;
      const double relative = largest > 0 ? apart / largest : apart;
      if (relative <= furthest || (furthest >= 0 && !std::isfinite(apart))) continue;
      furthest = relative;
      at_furthest = set;
      furthest_at = FurthestApart(x, y);
      result->run = OwnRun{a.outputs()[o].name,
                           x.dtype(),
                           PositionOf(x.shape(), furthest_at),
                           x.At(furthest_at),
                           y.At(furthest_at),
                           apart,
                           largest,
                           std::nullopt};
    }
    return true;
  };
  const auto ordinary = RandomInputs(a, options.seed, least_integer);
  if (!ordinary.ok()) return;
  const NamedTensors inputs = ByName(a, *ordinary);
  if (!compare(inputs, "ordinary inputs")) return;
  for (const std::vector<double>& group : numbers) {
    const auto drawn = InputsAround(a, options.seed, group);
    if (drawn.ok()) compare(ByName(a, *drawn), absl::StrCat("inputs around ", group.front()));
  }
  if (result->run && IsFloating(result->run->dtype)) {
    const std::string& output = result->run->output;
    if (const auto both = RoundingOfBoth(a, b, at_furthest, output, furthest_at, options.threads)) {
      result->run->rounding = std::pair(both->worst, both->typical);
    }
  }
  for (const auto& [magnitude, kind] :
       {std::pair(Magnitude::kLarge, "large inputs"), std::pair(Magnitude::kExtreme, "very large inputs")}) {
    const auto drawn = StressInputs(a, options.seed, std::vector<Magnitude>(a.inputs().size(), magnitude));
    if (drawn.ok()) run(ByName(a, *drawn), kind);
  }
  run(WithInfinities(inputs, options.seed), "inputs with infinities");
}

}  // namespace rewright
