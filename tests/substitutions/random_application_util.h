// Graphs that consist of a rule's left side at random structural values and sizes.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/graph.h"
#include "substitutions/compiled_rule.h"
#include "substitutions/instances.h"

namespace rewright {

struct RandomApplication {
  Graph graph;  // its outputs are those of the left side
  std::string description;
  absl::flat_hash_map<std::string, Tensor> inputs;
};

// Draws sizes and attributes until the left side is legal; nothing when `tries` do not suffice.
std::optional<RandomApplication> DrawApplication(const CompiledRule& rule, const Structure& structure,
                                                 const RuleInstance& instance, int tries, std::mt19937_64& rng);

}  // namespace rewright
