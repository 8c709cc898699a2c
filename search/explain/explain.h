// Tells of rules and nodes whether they meet: where a rule applies and what that gains, or what stands in its way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/numerics/ranges.h"
#include "search/cost_model.h"
#include "search/rewriter.h"

namespace rewright {

// The fate of a rule at a node.
enum class Fit : uint8_t {
  kApplies,     // the search may use it there
  kNotRunning,  // it would apply, but the device cannot run what it makes, or the cost is not known
  kRefused,     // it fits, and numbers forbid it: a range, a rounding that must stay
  kCondition,   // the pattern is there, and a condition, a type or a size is not as the rule wants
  kPart,        // a part of the pattern is there
};
const char* FitName(Fit fit);

struct RuleAtNode {
  int rule = 0;  // number in the index
  NodeId node = 0;
  Fit fit = Fit::kPart;
  std::string place;   // names of the values that it replaces
  double seconds = 0;  // kApplies: cost after minus before, as estimated around the node
  int matched = 0;     // kPart: operators of the pattern that are there,
  int of = 0;          // of so many
  std::string at;      // kPart: the value where the pattern ends
  std::string reason;  // of all but kApplies
  std::vector<NodeId> covered;  // kApplies: the nodes of the left side
};

struct ExplainQuery {
  std::vector<int> rules;      // numbers in the index; empty: all
  std::vector<NodeId> nodes;   // empty: all that run
  NumericsOptions numerics;    // known facts about inputs
  bool keep_roundings = true;  // as optimize does (search/optimize/decisions.h)
  int radius = 3;              // as SearchOptions::site_radius
};

// The answers by rule, then in the order of the graph's nodes. A node whose operator is not the rule's first gives
// none.
std::vector<RuleAtNode> ExplainRules(const Graph& graph, const RuleIndex& rules, CostModel& costs,
                                     const ExplainQuery& query);

// The seconds that places where rules apply save together, as estimated: of places that share a node only one counts,
// that which saves most.
double SavedAtMost(std::vector<const RuleAtNode*> places);

}  // namespace rewright
