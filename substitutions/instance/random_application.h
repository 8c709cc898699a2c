// A rule's left side as a graph, at random sizes and attributes where it is legal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/match/matcher.h"

namespace rewright {

struct RandomApplication {
  Graph graph;  // its outputs are those of the left side
  // The rule at this graph, for BuildReplacement(): the match by which it was made.
  Match match;
  std::string description;
  absl::flat_hash_map<std::string, Tensor> inputs;  // random tensors
};

struct DrawOptions {
  int tries = 1000;
  // Draws different sizes and attributes where the rule lets them differ, so that a law for special ones alone does not
  // seem to hold.
  bool distinct = false;
  // Draws elements for the inputs; else `inputs` is empty.
  bool tensors = true;
};

// Draws sizes and attributes until the left side is legal and the conditions hold; nothing when the tries do not
// suffice. The rule outlives the result.
std::optional<RandomApplication> DrawApplication(const CompiledRule& rule, const StructuralAssignment& structure,
                                                 const RuleInstance& instance, const DrawOptions& options,
                                                 std::mt19937_64& rng);

// The same at given values of the instance's symbols, without elements of inputs; nothing where the left side is not
// legal there.
std::optional<RandomApplication> ApplicationAt(const CompiledRule& rule, const StructuralAssignment& structure,
                                               const RuleInstance& instance, const std::vector<int64_t>& symbols);

}  // namespace rewright
