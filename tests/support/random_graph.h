// Random graphs over all operators, for properties that hold for any graph.
//
// A graph is grown piece by piece. A piece is a random application of an operator (OpDef::sample; operators in turn, so
// that a new one is covered as soon as it is added) or the left side of a rule at random sizes, since rules would
// hardly ever apply otherwise. Pieces read values of earlier ones if types agree.
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
  // Some pieces are left sides of these rules, which must outlive this object.
  explicit RandomGraphs(const std::vector<std::shared_ptr<const Matcher>>& rules);

  // Makes a graph; the same seed gives the same graph.
  RandomGraph Grow(uint64_t seed, int pieces) const;

 private:
  class Grower;
  struct Piece {
    const CompiledRule* rule;
    std::vector<std::pair<StructuralAssignment, RuleInstance>> instances;  // a few, of different structure
  };
  std::vector<Piece> pieces_;
};

}  // namespace rewright
