// Uses rules as a lowering: applies them from left to right until none matches, without regard to costs. Derived
// operators (core/adjoint) become operators that have kernels this way: substitutions/rules/gradients.rules.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "substitutions/rule_set.h"

namespace rewright {

struct Lowering {
  struct Step {
    std::string rule;
    std::string replaced;  // the name of the operator
    std::string bindings;  // Match::Describe
  };
  Graph graph;
  std::vector<Step> steps;  // in the order of application
};

// If several rules match at a node the first one of the set is taken. Rules have one output each. Errors: a rule of the
// set has several, an instantiation fails, or the rules undo one another (more than kMaxRounds rounds).
inline constexpr int kMaxRounds = 100;
absl::StatusOr<Lowering> Lower(const Graph& graph, const RuleSet& rules);

// Lowers by the rules of gradients that come with the program. Rules that hold only for finite values are among them:
// for other values the lowered graph is the definition. Derived operators for which there is no rule stay. Errors: also
// those of reading the rules.
absl::StatusOr<Lowering> LowerGradients(const Graph& graph);

}  // namespace rewright
