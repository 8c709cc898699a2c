#include "runtime/training/parallel/layout.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "runtime/training/optimizer.h"
#include "runtime/training/step.h"

namespace rewright {
namespace {

using distributed::PipelineSchedule;

constexpr std::pair<const char*, PipelineSchedule> kSchedules[] = {{"1f1b", PipelineSchedule::k1F1B},
                                                                   {"gpipe", PipelineSchedule::kGPipe},
                                                                   {"interleaved", PipelineSchedule::kInterleaved},
                                                                   {"zero_bubble", PipelineSchedule::kZeroBubble}};

// Numbers first, first + step, ..
std::vector<int> Stepping(int first, int step, int count) {
  std::vector<int> ranks;
  for (int k = 0; k < count; ++k) ranks.push_back(first + k * step);
  return ranks;
}

}  // namespace

std::string WeightOf(const std::string& state) {
  for (const std::string suffix : kKeptSuffixes) {
    if (!suffix.empty() && state.size() > suffix.size() && state.ends_with(suffix)) {
      return state.substr(0, state.size() - suffix.size());
    }
  }
  return state;
}

std::vector<int> RankLayout::ModelParallelGroup(int rank) const {
  return Stepping(rank / group_size() * group_size(), 1, group_size());
}
std::vector<int> RankLayout::TensorParallelGroup(int rank) const { return Stepping(rank / tp * tp, 1, tp); }
std::vector<int> RankLayout::PipelineGroup(int rank) const {
  return Stepping(rank / group_size() * group_size() + rank % tp, tp, pp);
}
std::vector<int> RankLayout::DataParallelGroup(int rank) const {
  return Stepping(rank % group_size(), group_size(), dp);
}

std::vector<int> RankLayout::ShardOrder() const {
  std::vector<int> order;
  for (int number = 0; number < group_size(); ++number) {
    const std::vector<int> group = DataParallelGroup(number);
    order.insert(order.end(), group.begin(), group.end());
  }
  return order;
}

absl::StatusOr<RankLayout> ParseLayout(const std::string& text, int ranks) {
  RankLayout layout;
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
    const std::string key = sides[0], value = sides.size() == 2 ? sides[1] : "";
    struct Field {
      std::string key;
      int64_t least, most;
      std::function<void(int64_t)> set;
    };
    const Field fields[] = {
        {"dp", 1, 1 << 20, [&](int64_t number) { layout.dp = static_cast<int>(number); }},
        {"tp", 1, 1 << 20, [&](int64_t number) { layout.tp = static_cast<int>(number); }},
        {"pp", 1, 1 << 20, [&](int64_t number) { layout.pp = static_cast<int>(number); }},
        {"zero", 0, 3, [&](int64_t number) { layout.zero = static_cast<int>(number); }},
        {"micro", 1, 1 << 24, [&](int64_t number) { layout.micro = number; }},
        {"chunks", 2, 1 << 10, [&](int64_t number) { layout.chunks = static_cast<int>(number); }},
    };
    int64_t number = 0;
    bool good = given.insert(key).second;
    if (key == "schedule") {
      const auto found = std::find_if(std::begin(kSchedules), std::end(kSchedules),
                                      [&](const auto& schedule) { return schedule.first == value; });
      good &= found != std::end(kSchedules);
      if (good) layout.schedule = found->second;
    } else {
      const auto* field =
          std::find_if(std::begin(fields), std::end(fields), [&](const Field& f) { return f.key == key; });
      good &= field != std::end(fields) && absl::SimpleAtoi(value, &number) && number >= field->least &&
              number <= field->most;
      if (good) field->set(number);
    }
    if (!good) {
      return error(
          "dp=N, tp=N, pp=N, zero=0..3, micro=M, schedule=1f1b|gpipe|interleaved|zero_bubble or chunks=C above 1, "
          "each at most once");
    }
  }
  const bool interleaved = layout.schedule == distributed::PipelineSchedule::kInterleaved;
  if (given.contains("chunks") && !interleaved) return error("chunks with schedule=interleaved");
  if (interleaved && !given.contains("chunks")) layout.chunks = 2;
  if (given.contains("schedule") && layout.pp == 1) return error("schedule with pp=N");
  const int64_t needed = int64_t{layout.dp} * layout.tp * layout.pp;
  if (needed != ranks) {
    return error(
        absl::StrCat("mpirun -n ", needed, " rewright train .., found ", ranks, ranks == 1 ? " rank" : " ranks"));
  }
  return layout;
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
