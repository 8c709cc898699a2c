// Equality saturation: rules are applied to an e-graph until they say nothing new or a limit is reached.
//
// Each round finds the matches of all rules and then makes the sides of each match equal (Willsey et al., egg, POPL
// 2021). A rule has a share of each round, so that those which only permute do not take all the room; matches beyond it
// wait for the next round. Limits are counted in matches and e-nodes, never in time, so that results do not depend on
// the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "substitutions/egraph/egraph.h"

namespace rewright {

// A rule in one direction.
struct DirectedRule {
  std::shared_ptr<const Matcher> matcher;
  // When `matcher` is a rule read from right to left: the rule itself. Its proof is about the left sides that it
  // matches, so a left side that was built counts only where the rule leads back from it.
  std::shared_ptr<const Matcher> forward;
};

// The rules, and with `both_ways` also those that can be read from right to left: whose right side binds all names.
std::vector<DirectedRule> DirectedRules(const std::vector<std::shared_ptr<const Matcher>>& rules, bool both_ways);

struct SaturationLimits {
  int max_rounds = 16;
  int max_nodes = 10000;
  // Matches that are carried out, in all.
  int64_t max_matches = 100000;
  // New matches of one rule in one round.
  int64_t max_matches_of_rule = 1000;
  // Rules with several outputs on the left side (merges of siblings) count only in the first rounds: their results are
  // siblings again. TENSAT's k_multi (Yang et al., MLSys 2021, section 4).
  int max_merge_rounds = 1 << 30;
  // Work on weights alone is left as it is: it is done once, at load.
  bool rewrite_weights = true;
  // The graphs are to be run: rules are applied where they are right for the numbers that run (BuildReplacement).
  bool for_runs = false;
  // Called between matches; true ends the saturation. It serves time limits: results then depend on the machine.
  std::function<bool()> stop;
  // Called after every round; true ends the saturation. It serves goals that are reached.
  std::function<bool()> done;
};

// The effect of one match.
struct CarriedOut {
  int rule = 0;
  // Pairs of values that the match made equal: of the left side, and of the right side.
  std::vector<std::pair<Value, Value>> joined;
  // The values that the match added: EGraph::value(i) for i in [first, end).
  size_t first = 0;
  size_t end = 0;
};

enum class SaturationEnd : uint8_t { kSaturated, kDone, kRounds, kNodes, kMatches, kStopped };

struct SaturationResult {
  SaturationEnd end = SaturationEnd::kSaturated;
  int rounds = 0;
  int64_t matches = 0;   // carried out
  int64_t failures = 0;  // right sides that could not be built: a fault of the rule
  std::string first_failure;
  std::vector<int64_t> uses;        // by rule: matches that made classes equal
  std::vector<CarriedOut> history;  // matches that made values equal
};

SaturationResult Saturate(EGraph& egraph, const std::vector<DirectedRule>& rules, const SaturationLimits& limits = {});

}  // namespace rewright
