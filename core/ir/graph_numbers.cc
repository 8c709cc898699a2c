#include "core/ir/graph_numbers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <variant>

#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "core/ir/random_tensors.h"

namespace rewright {
namespace {

// Larger constants are weights, tables and masks.
constexpr int64_t kMostElements = 8;

void NoteNumbers(const Graph& graph, std::map<double, double>* by_magnitude) {
  const auto note = [&](double number) {
    if (std::isfinite(number) && number != 0) by_magnitude->emplace(std::abs(number), number);
  };
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    for (const auto& [name, value] : node.attrs) {
      if (const double* number = std::get_if<double>(&value)) note(*number);
    }
    if (node.op != nullptr || node.leaf == LeafKind::kInput) continue;
    const Tensor* const elements = graph.arena()->Elements(id);
    if (elements == nullptr || elements->data() == nullptr || elements->num_elements() > kMostElements) continue;
    for (int64_t i = 0; i < elements->num_elements(); ++i) note(elements->At(i));
  }
}

// The magnitude of the largest number of a type.
double ReachOf(DType dtype) {
  if (IsFloating(dtype)) return LargestOf(dtype);
  return std::ldexp(1, static_cast<int>(8 * DTypeSize(dtype)) - (IsUnsigned(dtype) ? 0 : 1)) - 1;
}

enum class Place : uint8_t { kAt, kBelow, kAbove, kNextTo, kNegative, kOrdinary };
constexpr uint64_t kPlaces = 6;

double ElementAt(Place place, double number, bool integer, std::mt19937_64& rng) {
  std::uniform_real_distribution<double> part(0.5, 1);
  const double step = integer ? 1 : std::abs(number) / 64;
  switch (place) {
    case Place::kBelow: return number * part(rng);
    case Place::kAbove: return number / part(rng);
    case Place::kNextTo: return number + (rng() % 2 == 0 ? step : -step);
    case Place::kNegative: return -ElementAt(static_cast<Place>(rng() % 4), number, integer, rng);
    default: return number;
  }
}

// Places take turns, so that few elements have all of them.
void FillAround(const std::vector<double>& numbers, std::mt19937_64& rng, Tensor* tensor) {
  const DType dtype = tensor->dtype();
  const double reach = ReachOf(dtype);
  const auto reaches = [&](double x) { return std::abs(x) <= reach && !(x < 0 && IsUnsigned(dtype)); };
  std::vector<double> within;
  std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(within), reaches);
  const uint64_t first = rng();
  for (int64_t i = 0; !within.empty() && i < tensor->num_elements(); ++i) {
    const auto place = static_cast<Place>((first + static_cast<uint64_t>(i)) % kPlaces);
    const double element = ElementAt(place, within[rng() % within.size()], !IsFloating(dtype), rng);
    if (place == Place::kOrdinary || !reaches(element)) continue;
    if (IsFloating(dtype)) {
      tensor->Set(i, element);
    } else if (std::abs(element) < 0x1p62) {
      tensor->SetInt(i, static_cast<int64_t>(std::llround(element)));
    }
  }
}

}  // namespace

std::vector<std::vector<double>> NumbersOf(const std::vector<const Graph*>& graphs, size_t most, const Graph* except) {
  std::map<double, double> by_magnitude, excepted;
  for (const Graph* graph : graphs) NoteNumbers(*graph, &by_magnitude);
  if (except != nullptr) NoteNumbers(*except, &excepted);
  for (const auto& [magnitude, number] : excepted) by_magnitude.erase(magnitude);
  std::vector<std::vector<double>> groups(std::min(most, by_magnitude.size()));
  size_t place = 0;
  for (const auto& [magnitude, number] : by_magnitude) {
    groups[place++ * groups.size() / by_magnitude.size()].push_back(number);
  }
  return groups;
}

absl::StatusOr<std::vector<Tensor>> InputsAround(const Graph& graph, uint64_t seed,
                                                 const std::vector<double>& numbers) {
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, RandomInputs(graph, seed));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Value input = graph.inputs()[i];
    const DType dtype = tensors[i].dtype();
    if (!IsFloating(dtype) && (!IsInteger(dtype) || IndexedSize(graph, input) > 0)) continue;
    std::mt19937_64 rng(seed * 0x9e3779b97f4a7c15u + Fnv1a(graph.node(input.node).name));
    FillAround(numbers, rng, &tensors[i]);
  }
  return tensors;
}

}  // namespace rewright
