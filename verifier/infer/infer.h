// The weakest condition under which a refuted rule is true, within a family (condition_family.h).
//
// The search visits conjunctions of one, two and three atoms, those of each size from weak to strong. A sample decides
// which one is weaker: the assignments that a condition admits, out of many that make the left side legal. Every
// counterexample throws out all conditions that admit it; the others are attacked and then proved. An answer lists the
// weaker conditions of the family that are refuted, and names those that could be neither proved nor refuted.
#pragma once

#include <string>
#include <vector>

#include "verifier/prove_rule.h"

namespace rewright {

struct WeakerCondition {
  std::string when;
  std::string witness;  // in one line: sizes at which the rule is false although the condition holds
};

struct InferredCondition {
  std::string when;     // in the rule language, without `when`
  Rule rule;            // under all its conditions
  RuleVerdict verdict;  // kProved
  // Weaker ones of the family, the nearest first; at most kMaxReported.
  std::vector<WeakerCondition> refuted;
  std::vector<std::string> unknown;
};

inline constexpr size_t kMaxReported = 12;

struct Inference {
  // None is weaker than another. The first admits the most.
  std::vector<InferredCondition> answers;
  int family = 0;        // atoms that make a difference
  int attempts = 0;      // conditions that were attacked or proved
  bool complete = true;  // false: ended by the time limit
  double cpu_ms = 0;
};

// Infers conditions for a rule that is refuted. The time limit of `options` is for all of it.
Inference InferConditions(const Rule& rule, const RuleProofOptions& options);

}  // namespace rewright
