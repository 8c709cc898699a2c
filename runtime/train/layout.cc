#include "runtime/train/layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/step.h"

namespace rewright {
namespace {

constexpr const char* kKept[] = {".momentum", ".adam_m", ".adam_v"};

// The weight that an optimizer keeps the state for; empty where it is none of those.
std::string WeightOf(const std::string& state) {
  for (const std::string suffix : kKept) {
    if (state.size() > suffix.size() && state.ends_with(suffix)) {
      return state.substr(0, state.size() - suffix.size());
    }
  }
  return "";
}

}  // namespace

std::vector<int> Layout::GroupOfRank(int rank) const {
  std::vector<int> ranks;
  for (int part = 0; part < tp; ++part) ranks.push_back(rank / tp * tp + part);
  return ranks;
}

std::vector<int> Layout::PartnersOfRank(int rank) const {
  std::vector<int> ranks;
  for (int group = 0; group < dp; ++group) ranks.push_back(group * tp + rank % tp);
  return ranks;
}

absl::StatusOr<Layout> ParseLayout(const std::string& text, int ranks) {
  Layout layout;
  if (text.empty()) {
    layout.dp = ranks;
    return layout;
  }
  const auto error = [&](const std::string& expected) {
    return absl::InvalidArgumentError(absl::StrCat("--layout: found `", text, "`, expected ", expected));
  };
  std::set<std::string> given;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    int number = 0;
    const bool known = sides[0] == "dp" || sides[0] == "tp" || sides[0] == "zero";
    const bool good =
        sides.size() == 2 && absl::SimpleAtoi(sides[1], &number) && known && given.insert(sides[0]).second;
    if (!good || number < (sides[0] == "zero" ? 0 : 1) || number > (sides[0] == "zero" ? 1 : 1 << 20)) {
      return error("dp=N, tp=N, dp=A,tp=B or dp=N,zero=1");
    }
    (sides[0] == "dp" ? layout.dp : sides[0] == "tp" ? layout.tp : layout.zero) = number;
  }
  if (layout.zero > 0 && layout.tp > 1) return error("zero=1 without tp");
  if (int64_t{layout.dp} * layout.tp != ranks) {
    return error(absl::StrCat("mpirun -n ", int64_t{layout.dp} * layout.tp, " rewright train .., found ", ranks,
                              ranks == 1 ? " rank" : " ranks"));
  }
  return layout;
}

absl::StatusOr<StateAxes> PlacedStates(const Graph& graph, const StateAxes& places) {
  StateAxes placed;
  std::vector<bool> fits(places.size(), false);
  for (Value state : graph.states()) {
    const std::string& name = graph.node(state.node).name;
    const std::string weight = WeightOf(name);
    for (size_t k = 0; k < places.size(); ++k) {
      if (!MatchesPattern(places[k].first, weight.empty() ? name : weight)) continue;
      fits[k] = true;
      placed.emplace_back(name, places[k].second);
      break;
    }
  }
  for (size_t k = 0; k < places.size(); ++k) {
    if (!fits[k]) {
      return absl::InvalidArgumentError(absl::StrCat("model.places: `", places[k].first, "` fits no weight"));
    }
  }
  return placed;
}

StateAxes OptimizerStates(const Graph& step, int64_t degree) {
  StateAxes placed;
  std::map<std::string, int> sums;
  for (Value state : step.states()) {
    const std::string& name = step.node(state.node).name;
    if (WeightOf(name).empty()) continue;
    const Shape& shape = step.type(state).shape;
    const auto found = std::find_if(shape.begin(), shape.end(), [&](int64_t size) { return size % degree == 0; });
    if (found == shape.end()) continue;
    const auto axis = static_cast<int>(found - shape.begin());
    placed.emplace_back(name, axis);
    sums[SumOfGradients(WeightOf(name))] = axis;
  }
  for (Value input : step.inputs()) {
    const auto sum = sums.find(step.node(input.node).name);
    if (sum != sums.end()) placed.push_back(*sum);
  }
  return placed;
}

}  // namespace rewright
