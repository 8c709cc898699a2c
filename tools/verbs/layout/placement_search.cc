#include "tools/verbs/layout/placement_search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "runtime/parallel/rank_graph.h"
#include "tools/verbs/layout/cluster_cost.h"

namespace rewright {
namespace {

using Axes = std::vector<int>;  // by group

// The name with # for each number.
std::string WithoutNumbers(const std::string& name) {
  std::string text;
  for (const char letter : name) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(letter))) {
      text += letter;
    } else if (text.empty() || text.back() != '#') {
      text += '#';
    }
  }
  return text;
}

class Descent {
 public:
  Descent(const std::vector<TensorGroup>& groups,
          const std::function<absl::StatusOr<PlacementCost>(const std::vector<sharding::Placement>&)>& cost_of,
          const PlacementSearchOptions& options)
      : groups_(groups), cost_of_(cost_of), options_(options) {}

  absl::StatusOr<PlacementChoice> Run() {
    std::vector<Axes> starts = options_.starts;
    if (starts.empty()) starts.emplace_back(groups_.size(), -1);
    Axes best;
    for (const Axes& start : starts) RETURN_IF_ERROR(CostOf(start).status());  // each is tried, whatever the limit
    for (const Axes& start : starts) {
      ASSIGN_OR_RETURN(Axes end, From(start));
      if (best.empty() || IsBetter(known_.at(end), known_.at(best))) best = std::move(end);
    }
    return Explained(best);
  }

 private:
  bool exhausted() const { return static_cast<int64_t>(known_.size()) >= options_.most_tried; }

  bool IsBetter(const PlacementCost& a, const PlacementCost& b) const {
    const auto key = [&](const PlacementCost& cost) {
      const bool fits = options_.memory_bytes == 0 || cost.bytes <= options_.memory_bytes;
      return std::tuple(fits ? 0 : cost.bytes, cost.seconds, cost.bytes);
    };
    return key(a) < key(b);
  }

  absl::StatusOr<PlacementCost> CostOf(const Axes& axes) {
    const auto found = known_.find(axes);
    if (found != known_.end()) return found->second;
    ASSIGN_OR_RETURN(const PlacementCost cost, cost_of_(PlacementsOf(axes)));
    known_.emplace(axes, cost);
    return cost;
  }

  std::vector<sharding::Placement> PlacementsOf(const Axes& axes) const {
    std::vector<sharding::Placement> placements;
    for (size_t k = 0; k < groups_.size(); ++k) {
      if (axes[k] < 0) continue;
      for (const std::string& name : groups_[k].names) placements.push_back({name, axes[k]});
    }
    return placements;
  }

  // The places of a group other than that of `axes`.
  std::vector<Axes> Others(const Axes& axes, size_t group) const {
    std::vector<int> places = groups_[group].axes;
    places.push_back(-1);
    std::vector<Axes> others;
    for (int place : places) {
      if (place == axes[group]) continue;
      others.push_back(axes);
      others.back()[group] = place;
    }
    return others;
  }

  absl::StatusOr<Axes> From(Axes axes) {
    bool moves = true;
    while (moves && !exhausted()) {
      ASSIGN_OR_RETURN(moves, MoveOne(&axes));
      if (moves) continue;
      ASSIGN_OR_RETURN(moves, MoveTwo(&axes));
    }
    return axes;
  }

  // Takes the axes if they are better; true: they are.
  absl::StatusOr<bool> Take(const Axes& other, Axes* axes) {
    ASSIGN_OR_RETURN(const PlacementCost cost, CostOf(other));
    if (!IsBetter(cost, known_.at(*axes))) return false;
    *axes = other;
    return true;
  }
  absl::StatusOr<bool> MoveOne(Axes* axes) {
    bool moves = false;
    for (size_t group = 0; group < groups_.size() && !exhausted(); ++group) {
      for (const Axes& other : Others(*axes, group)) {
        ASSIGN_OR_RETURN(const bool taken, Take(other, axes));
        moves |= taken;
      }
    }
    return moves;
  }
  // The first pair of groups whose move is better.
  absl::StatusOr<bool> MoveTwo(Axes* axes) {
    for (size_t one = 0; one < groups_.size(); ++one) {
      for (const Axes& first : Others(*axes, one)) {
        for (size_t two = one + 1; two < groups_.size(); ++two) {
          for (const Axes& other : Others(first, two)) {
            if (exhausted()) return false;
            ASSIGN_OR_RETURN(const bool taken, Take(other, axes));
            if (taken) return true;
          }
        }
      }
    }
    return false;
  }

  absl::StatusOr<PlacementChoice> Explained(const Axes& axes) {
    PlacementChoice choice;
    choice.cost = known_.at(axes);
    for (size_t group = 0; group < groups_.size(); ++group) {
      PlacementChoice::Placed placed{groups_[group], axes[group]};
      std::optional<PlacementCost> second;
      for (const Axes& other : Others(axes, group)) {
        ASSIGN_OR_RETURN(const PlacementCost cost, CostOf(other));
        if (second && !IsBetter(cost, *second)) continue;
        second = cost;
        placed.second_axis = other[group];
      }
      placed.second_cost = second.value_or(choice.cost);
      choice.tensors.push_back(std::move(placed));
    }
    choice.tried = static_cast<int64_t>(known_.size());
    return choice;
  }

  const std::vector<TensorGroup>& groups_;
  const std::function<absl::StatusOr<PlacementCost>(const std::vector<sharding::Placement>&)>& cost_of_;
  const PlacementSearchOptions& options_;
  std::map<Axes, PlacementCost> known_;
};

std::string PlaceText(int axis) { return axis < 0 ? "whole on every device" : absl::StrCat("along axis ", axis); }

}  // namespace

std::vector<TensorGroup> GroupsOf(const Graph& graph, const std::vector<Value>& leaves, int degree) {
  constexpr size_t kMany = 32;
  std::map<std::pair<std::string, Shape>, size_t> found;
  std::vector<TensorGroup> groups;
  for (Value leaf : leaves) {
    const std::string& name = graph.node(leaf.node).name;
    const Shape& shape = graph.type(leaf).shape;
    std::vector<int> axes;
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      if (shape[axis] % degree == 0) axes.push_back(axis);
    }
    if (axes.empty()) continue;
    const std::string key = leaves.size() > kMany ? WithoutNumbers(name) : name;
    const auto [group, is_new] = found.try_emplace({key, shape}, groups.size());
    if (is_new) groups.push_back({{}, axes});
    groups[group->second].names.push_back(name);
  }
  return groups;
}

std::vector<sharding::Placement> PlacementChoice::Placements() const {
  std::vector<sharding::Placement> placements;
  for (const Placed& placed : tensors) {
    if (placed.axis < 0) continue;
    for (const std::string& name : placed.group.names) placements.push_back({name, placed.axis});
  }
  return placements;
}

std::vector<std::string> PlacementChoice::Reasons() const {
  std::vector<std::string> lines;
  for (const Placed& placed : tensors) {
    const size_t more = placed.group.names.size() - 1;
    lines.push_back(absl::StrFormat("%s%s: %s; %s would take %.4g s (%+.1f %%) and %.3f MB a device",
                                    placed.group.names[0], more > 0 ? absl::StrCat(" and ", more, " alike") : "",
                                    PlaceText(placed.axis), PlaceText(placed.second_axis), placed.second_cost.seconds,
                                    100 * (placed.second_cost.seconds / std::max(cost.seconds, 1e-300) - 1),
                                    static_cast<double>(placed.second_cost.bytes) / 1e6));
  }
  return lines;
}

absl::StatusOr<PlacementChoice> ChoosePlacements(
    const std::vector<TensorGroup>& groups,
    const std::function<absl::StatusOr<PlacementCost>(const std::vector<sharding::Placement>&)>& cost_of,
    const PlacementSearchOptions& options) {
  return Descent(groups, cost_of, options).Run();
}

namespace {

std::vector<Value> LeavesOf(const Graph& graph) {
  std::vector<Value> leaves = graph.inputs();
  for (Value state : graph.states()) leaves.push_back(state);
  return leaves;
}

}  // namespace

ModelCosts::ModelCosts(const Graph& model, int degree, const distributed::Cluster& cluster, sharding::LawSource laws)
    : graph_(CopyGraph(model, Mode::kTraining)),
      degree_(degree),
      cluster_(cluster),
      laws_(std::move(laws)),
      groups_(GroupsOf(graph_, LeavesOf(graph_), degree)),
      device_(DeviceOfCluster(cluster)) {}

absl::StatusOr<PlacementCost> ModelCosts::Of(const std::vector<sharding::Placement>& placements) const {
  RETURN_IF_ERROR(device_.status());
  ASSIGN_OR_RETURN(const sharding::Sharded sharded, sharding::Shard(graph_, placements, degree_, laws_));
  ASSIGN_OR_RETURN(const RankGraph part, GraphOfRank(sharded.graph, /*rank=*/0, degree_));
  PlacementCost cost;
  ASSIGN_OR_RETURN(cost.seconds, SecondsOf(part.graph, **device_));
  cost.seconds += ExchangeSeconds(sharded.graph, cluster_, degree_);
  for (const auto* list : {&part.inputs, &part.states}) {
    for (const ShardedLeaf& leaf : *list) cost.bytes += leaf.whole.num_bytes() / (leaf.axis < 0 ? 1 : degree_);
  }
  return cost;
}

absl::StatusOr<PlacementChoice> PlacementsOfModel(const Graph& model, int degree, const distributed::Cluster& cluster,
                                                  const sharding::LawSource& laws) {
  const ModelCosts costs(model, degree, cluster, laws);
  const Graph& graph = costs.graph();
  const std::vector<TensorGroup>& groups = costs.groups();
  PlacementSearchOptions options{.memory_bytes = cluster.memory_bytes};
  std::vector<int> whole(groups.size(), -1), batch = whole;
  for (size_t k = 0; k < groups.size(); ++k) {
    const bool is_input = std::any_of(graph.inputs().begin(), graph.inputs().end(),
                                      [&](Value input) { return graph.node(input.node).name == groups[k].names[0]; });
    if (is_input && groups[k].axes[0] == 0) batch[k] = 0;
  }
  options.starts = {batch, whole};
  ASSIGN_OR_RETURN(PlacementChoice choice,
                   ChoosePlacements(
                       groups, [&](const auto& placements) { return costs.Of(placements); }, options));
  if (choice.cost.bytes <= cluster.memory_bytes) return choice;
  return absl::ResourceExhaustedError(
      absl::StrFormat("--layout: a device has %.1f MB of memory, expected at least %.1f MB for its inputs and weights",
                      static_cast<double>(cluster.memory_bytes) / 1e6, static_cast<double>(choice.cost.bytes) / 1e6));
}

}  // namespace rewright
