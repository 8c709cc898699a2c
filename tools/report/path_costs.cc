#include "tools/report/path_costs.h"

#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rewright {

std::vector<double> CostsAlong(const Graph& original, const std::vector<TraceStep>& trace, const std::vector<int>& path,
                               Device& device, double seconds) {
  std::vector<double> costs(path.size(), std::numeric_limits<double>::quiet_NaN());
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  CostModel model(device, [&] { return absl::Now() > end; });
  Graph graph = original;
  for (size_t i = 0; i < path.size() && absl::Now() < end; ++i) {
    const auto& replacement = trace[path[i]].replacement;
    absl::StatusOr<Graph> next = ReplaceValues(graph, ValueMap(replacement.begin(), replacement.end()));
    if (!next.ok()) break;
    graph = *std::move(next);
    if (const absl::StatusOr<GraphCost> cost = model.Cost(graph); cost.ok()) costs[i] = cost->seconds;
  }
  return costs;
}

std::vector<int> RegionsAlong(const Arena& arena, const GraphChanges& changes, const std::vector<TraceStep>& trace,
                              const std::vector<int>& path) {
  std::vector<int> regions(path.size(), -1);
  absl::flat_hash_map<NodeId, int> replaced;  // by a later step, to its change
  for (size_t i = path.size(); i-- > 0;) {
    const auto& replacement = trace[path[i]].replacement;
    int& region = regions[i];
    const auto ask = [&](const auto& change_of) {
      for (const auto& [from, to] : replacement) {
        if (region < 0) region = change_of(to);
        if (region < 0) region = change_of(from);
      }
    };
    ask([&](Value value) { return changes.DirectRegionOf(arena, value); });
    ask([&](Value value) {
      const auto later = replaced.find(value.node);
      return later == replaced.end() ? -1 : later->second;
    });
    ask([&](Value value) { return changes.RegionOf(arena, value); });
    for (const auto& [from, to] : replacement) {
      if (region >= 0) replaced.emplace(from.node, region);
    }
  }
  return regions;
}

}  // namespace rewright
