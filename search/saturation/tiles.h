// Tiles: e-nodes that a device runs as one, with their common cost.
//
// A device runs groups, so costs are not additive by e-node: an addition alone costs a kernel, and behind a convolution
// it costs nothing. Costs are additive by group. So an e-graph is covered by tiles, as instruction selection covers
// trees (Aho, Johnson, Optimal code generation for expression trees, JACM 1976): single e-nodes, and e-nodes fused with
// the producer of one of their operands, as long as the device says that together they cost less. A fused e-node that
// others read as well is computed twice here; the device's cost of the whole graph has the last word.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost_model.h"
#include "search/saturation/extraction.h"
#include "substitutions/egraph/egraph.h"

namespace rewright {

// E-nodes and the classes that they stand for, users first. The first one computes the tile's result; each of the
// others computes an operand of one before it.
using Tile = std::vector<std::pair<int, NodeId>>;

// The classes that the roots can need, as an extraction problem whose nodes are tiles.
class TileProblem {
 public:
  // The e-graph has been rebuilt. Costs are in seconds; infinite where the device cannot run a tile.
  TileProblem(const EGraph& egraph, const std::vector<Value>& roots, CostModel& costs);

  const ExtractionProblem& problem() const { return problem_; }
  const Tile& tile(int node) const { return tiles_[node]; }
  int num_classes() const { return static_cast<int>(classes_.size()); }
  // -1: the roots cannot need it.
  int ClassOf(Value value) const;

 private:
  int AddClass(Value value);
  void AddSingles();
  void Fuse();
  bool TryFuse(int node, Value operand, int below);
  void AddTile(Tile tile, double cost);
  // Seconds; the graph that the tile is, by itself.
  double CostOf(const Tile& tile);
  Value Leaf(Value representative);

  const EGraph& egraph_;
  CostModel& costs_;
  ExtractionProblem problem_;
  std::vector<Tile> tiles_;
  std::vector<Value> classes_;  // representatives, by number
  absl::flat_hash_map<Value, int> class_numbers_;
  std::shared_ptr<Arena> scratch_;
  ValueMap leaves_;                            // of one tile, by representative
  absl::flat_hash_map<NodeId, double> known_;  // by the application of scratch_ that a tile computes
};

}  // namespace rewright
