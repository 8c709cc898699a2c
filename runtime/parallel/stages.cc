#include "runtime/parallel/stages.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace rewright {
namespace {

struct Levels {
  std::vector<int> nodes;  // by position in nodes()
  std::vector<int> collectives;
};

// A node runs as soon as the collectives that it needs are done.
absl::StatusOr<Levels> FindLevels(const Graph& graph, size_t collectives) {
  const size_t first_operand = graph.outputs().size() - collectives;
  Levels levels{std::vector<int>(graph.nodes().size(), 0), std::vector<int>(collectives, 0)};
  absl::flat_hash_map<NodeId, size_t> results;
  for (size_t k = 0; k < collectives; ++k) {
    results[graph.inputs()[graph.inputs().size() - collectives + k].node] = k;
  }
  bool changed = true;
  for (size_t round = 0; changed; ++round) {
    if (round > collectives + 1) return absl::InternalError("a collective waits for itself");
    changed = false;
    for (size_t i = 0; i < levels.nodes.size(); ++i) {
      const auto result = results.find(graph.nodes()[i]);
      int level = result == results.end() ? 0 : levels.collectives[result->second] + 1;
      for (int producer : graph.producers(static_cast<int>(i))) level = std::max(level, levels.nodes[producer]);
      levels.nodes[i] = level;
    }
    for (size_t k = 0; k < collectives; ++k) {
      const int level = levels.nodes[graph.index(graph.outputs()[first_operand + k].value.node)];
      changed |= level != levels.collectives[k];
      levels.collectives[k] = level;
    }
  }
  return levels;
}

}  // namespace

absl::StatusOr<Stages> StagesOf(const RankGraph& rank) {
  const Graph& graph = rank.graph;
  auto levels = FindLevels(graph, rank.collectives.size());
  if (!levels.ok()) return levels.status();
  const int count = *std::max_element(levels->nodes.begin(), levels->nodes.end()) + 1;
  std::map<std::string, Value> by_name;
  for (Value state : graph.states()) by_name[graph.node(state.node).name] = state;
  std::vector<Value> states;
  for (const RankLeaf& state : rank.states) states.push_back(by_name.at(state.name));
  Stages stages;
  stages.pieces = PiecesOf(graph, levels->nodes, count, states);
  const auto operands = stages.pieces.outputs.end() - static_cast<std::ptrdiff_t>(rank.collectives.size());
  stages.outputs.assign(stages.pieces.outputs.begin(), operands);
  stages.operands.assign(operands, stages.pieces.outputs.end());
  stages.collectives.resize(static_cast<size_t>(count));
  for (size_t k = 0; k < rank.collectives.size(); ++k) {
    stages.collectives[static_cast<size_t>(levels->collectives[k])].push_back(static_cast<int>(k));
  }
  return stages;
}

}  // namespace rewright
