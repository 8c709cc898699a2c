// Random graphs over all operators, for what must hold whatever the graph.
//
// A graph is grown piece by piece. A piece is a random application of an operator (OpDef::sample; operators in turn, so
// that a new one is covered the day it is added) or the left side of a rule, at random sizes: else rules would hardly
// ever apply. Pieces read values of earlier ones where types agree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"
#include "substitutions/instance/instances.h"
#include "substitutions/match/matcher.h"

namespace rewright {

struct RandomGraph {
  Graph graph;
  absl::flat_hash_map<std::string, Tensor> inputs;
};

class RandomGraphs {
 public:
  // Pieces are left sides of these rules, which outlive this.
  explicit RandomGraphs(const std::vector<std::shared_ptr<const Matcher>>& rules);

  // The same seed gives the same graph.
  RandomGraph Grow(uint64_t seed, int pieces) const;

 private:
  class Grower;
  struct Piece {
    const CompiledRule* rule;
    std::vector<std::pair<Structure, RuleInstance>> instances;  // a few, of different structure
  };
  std::vector<Piece> pieces_;
};

}  // namespace rewright
