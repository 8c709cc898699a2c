#include "tests/support/random_placements.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

namespace rewright {

ProvedLaws& LawsOfTests() {
  static auto* const laws = new ProvedLaws(1);
  return *laws;
}

sharding::Sharded Cut(const Graph& graph, const std::vector<sharding::Placement>& placements, int64_t degree) {
  auto sharded = Shard(graph, placements, degree, std::ref(LawsOfTests()));
  EXPECT_TRUE(sharded.ok()) << sharded.status();
  return *std::move(sharded);
}

std::vector<sharding::Placement> RandomPlacements(const Graph& graph, int64_t degree, std::mt19937_64& rng) {
  std::vector<sharding::Placement> placements;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (node.leaf != LeafKind::kInput && node.leaf != LeafKind::kState) continue;
    std::vector<int> axes;
    for (int axis = 0; axis < node.outputs[0].rank(); ++axis) {
      if (node.outputs[0].shape[axis] % degree == 0 && node.outputs[0].shape[axis] > 0) axes.push_back(axis);
    }
    if (!axes.empty() && rng() % 4 != 0) placements.push_back({node.name, axes[rng() % axes.size()]});
  }
  return placements;
}

}  // namespace rewright
