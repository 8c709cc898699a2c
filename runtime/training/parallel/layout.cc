#include "runtime/training/parallel/layout.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "runtime/training/optimizer.h"
#include "runtime/training/step.h"

namespace rewright {

std::string WeightOf(const std::string& state) {
  for (const std::string suffix : kKeptSuffixes) {
    if (!suffix.empty() && state.size() > suffix.size() && state.ends_with(suffix)) {
      return state.substr(0, state.size() - suffix.size());
    }
  }
  return state;
}

absl::Status CheckPlaces(const StateAxes& places, int ranks) {
  if (!places.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.places: is missing; the layout tp=", ranks, " cuts weights as it says"));
}

absl::StatusOr<StateAxes> PlacedStates(const Graph& graph, const StateAxes& places,
                                       const std::vector<std::string>& inputs) {
  StateAxes placed;
  std::vector<bool> fits(places.size(), false);
  for (Value state : graph.states()) {
    const std::string& name = graph.node(state.node).name;
    const std::string weight = WeightOf(name);
    for (size_t k = 0; k < places.size(); ++k) {
      if (!MatchesPattern(places[k].first, weight)) continue;
      fits[k] = true;
      placed.emplace_back(name, places[k].second);
      break;
    }
  }
  for (size_t k = 0; k < places.size(); ++k) {
    if (std::find(inputs.begin(), inputs.end(), places[k].first) == inputs.end()) continue;
    fits[k] = true;
    for (Value input : graph.inputs()) {
      if (graph.node(input.node).name == places[k].first) placed.push_back(places[k]);
    }
  }
  for (size_t k = 0; k < places.size(); ++k) {
    if (!fits[k]) {
      return absl::InvalidArgumentError(absl::StrCat("model.places: `", places[k].first, "` fits no weight",
                                                     inputs.empty() ? "" : " and is no input"));
    }
  }
  return placed;
}

StateAxes ZeroAxes(const Graph& step, int64_t degree, int zero) {
  StateAxes placed;
  std::map<std::string, int> sums;
  for (Value state : step.states()) {
    const std::string& name = step.node(state.node).name;
    const std::string weight = WeightOf(name);
    if (weight == name && zero < 3) continue;
    const Shape& shape = step.type(state).shape;
    const auto divides = [&](int64_t size) { return size % degree == 0; };
    const auto first = std::find_if(shape.begin(), shape.end(), divides);
    if (first == shape.end()) continue;
    const int shared = SharedAxis(shape);
    const int axis = divides(shape[shared]) ? shared : static_cast<int>(first - shape.begin());
    placed.emplace_back(name, axis);
    sums[SumOfGradients(weight)] = axis;
  }
  for (Value input : step.inputs()) {
    const auto sum = sums.find(step.node(input.node).name);
    if (sum != sums.end()) placed.push_back(*sum);
  }
  return placed;
}

}  // namespace rewright
