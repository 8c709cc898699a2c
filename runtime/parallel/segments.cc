#include "runtime/parallel/segments.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

struct Levels {
  std::vector<int> nodes;  // by position in nodes()
  std::vector<int> collectives;
};

// The first level at which each may run: behind the collectives that it needs.
absl::StatusOr<Levels> FirstLevels(const Graph& graph, size_t collectives) {
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

// A node runs as soon as it may, or when the first that reads it does where that hands on fewer bytes between segments:
// where what it reads is there anyway, or smaller than what it gives. So the next values of states are not computed
// before it is known whether they will be taken.
class LevelsOfNodes {
 public:
  LevelsOfNodes(const Graph& graph, const Levels& first, int last) : graph_(graph), first_(first), last_(last) {}

  std::vector<int> Run() {
    waits_.assign(first_.nodes.size(), true);
    for (bool changed = true; changed;) {  // ever fewer wait
      FindLatest();
      changed = false;
      for (size_t i = 0; i < waits_.size(); ++i) {
        if (!waits_[i] || MayWait(static_cast<int>(i))) continue;
        waits_[i] = false;
        changed = true;
      }
    }
    std::vector<int> levels = first_.nodes;
    for (size_t i = 0; i < levels.size(); ++i) levels[i] = LevelOf(static_cast<int>(i));
    return levels;
  }

 private:
  int LevelOf(int i) const { return waits_[i] ? latest_[i] : First(i); }
  int First(int i) const { return first_.nodes[i]; }

  void FindLatest() {
    latest_.assign(waits_.size(), last_);
    const size_t results = graph_.outputs().size() - first_.collectives.size();
    for (size_t k = 0; k < first_.collectives.size(); ++k) {
      int& latest = latest_[graph_.index(graph_.outputs()[results + k].value.node)];
      latest = std::min(latest, first_.collectives[k]);
    }
    for (int i = static_cast<int>(waits_.size()) - 1; i >= 0; --i) {
      for (int user : graph_.users(i)) {
        latest_[i] = std::min(latest_[i], LevelOf(user));
      }
    }
  }

  bool MayWait(int i) const {
    const Node& node = graph_.node(graph_.nodes()[i]);
    if (!graph_.IsRun(node)) return false;
    int64_t given = 0, read = 0;
    for (const TensorType& type : node.outputs) given += type.num_bytes();
    for (Value operand : node.operands) {
      const int j = graph_.index(operand.node);
      const bool is_there = !graph_.IsRun(graph_.node(operand.node)) && First(j) == 0;
      if (!is_there && LevelOf(j) < LevelOf(i)) read += graph_.type(operand).num_bytes();
    }
    return read < given;
  }

  const Graph& graph_;
  const Levels& first_;
  const int last_;
  std::vector<bool> waits_;
  std::vector<int> latest_;
};

}  // namespace

absl::StatusOr<Segments> SegmentsOf(const RankGraph& rank) {
  const Graph& graph = rank.graph;
  ASSIGN_OR_RETURN(Levels levels, FirstLevels(graph, rank.collectives.size()));
  const int count = *std::max_element(levels.nodes.begin(), levels.nodes.end()) + 1;
  levels.nodes = LevelsOfNodes(graph, levels, count - 1).Run();
  Segments segments;
  segments.subgraphs = SplitGraph(graph, levels.nodes, count, rank.StatesInOrder());
  const auto operands = segments.subgraphs.outputs.end() - static_cast<std::ptrdiff_t>(rank.collectives.size());
  segments.outputs.assign(segments.subgraphs.outputs.begin(), operands);
  segments.operands.assign(operands, segments.subgraphs.outputs.end());
  segments.collectives.resize(static_cast<size_t>(count));
  for (size_t k = 0; k < rank.collectives.size(); ++k) {
    segments.collectives[levels.collectives[k]].push_back(static_cast<int>(k));
  }
  return segments;
}

SegmentUses UsesOf(const RankGraph& rank, const Segments& segments) {
  const std::vector<Subgraphs::Subgraph>& subgraphs = segments.subgraphs.subgraphs;
  const int end = 2 * static_cast<int>(subgraphs.size());
  const size_t first_result = rank.inputs.size(), first_state = rank.graph.inputs().size();
  SegmentUses result;
  result.uses.resize(segments.subgraphs.tensors.size());
  for (int s = 0; s < static_cast<int>(subgraphs.size()); ++s) {
    AddUses(subgraphs[s], 2 * s, &result.uses);
    for (int collective : segments.collectives[s]) {
      result.uses[segments.operands[collective]].Add(2 * s + 1);
      result.uses[first_result + collective].Add(2 * s + 1);
    }
  }
  for (int tensor : segments.outputs) result.uses[tensor].Add(end);
  const auto leave_out = [&](size_t begin, size_t count) { std::fill_n(result.uses.begin() + begin, count, Use()); };
  leave_out(0, first_result);
  leave_out(first_state, rank.states.size());
  // All next values are there at the end of a run, so they could share memory with little else. Inputs and states that
  // are next values of states are copied.
  result.has_next.assign(result.uses.size(), false);
  for (size_t k = 0; k < segments.outputs.size(); ++k) {
    const auto from = static_cast<size_t>(segments.outputs[k]);
    if (rank.graph.outputs()[k].updates.node < 0 || result.uses[from].last < 0) continue;
    result.uses[from].last = -1;
    result.has_next[from] = true;
  }
  return result;
}

}  // namespace rewright
