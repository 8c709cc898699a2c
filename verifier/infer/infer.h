// The weakest condition under which a refuted rule is true, within a family (condition_family.h).
//
// Conjunctions of one, two and three atoms are gone through, of each size from weak to strong. What "weaker" means is
// decided on a sample: of many assignments that make the left side legal, the ones that a condition admits. Every
// counterexample that is met throws out all conditions that admit it; the others are attacked and then proved. Of an
// answer it is known which weaker conditions of the family are refuted; those that could be neither proved nor refuted
// are named.
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
  std::string when;      // in the rule language, without `when`
  Rule rule;             // under all its conditions
  RuleVerdict verdict;   // kProved
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

// Of a rule that is refuted. The time limit of `options` is for all of it.
Inference InferConditions(const Rule& rule, const RuleProofOptions& options);

}  // namespace rewright
