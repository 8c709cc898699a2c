// A verdict for a whole rule: all of its instances within the domain, proved one by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "substitutions/rule.h"
#include "verifier/verifier.h"

namespace rewright {

struct RuleProofOptions {
  DomainLimits limits;
  double time_limit_s = 60;       // of CPU time, all instances together
  double instance_limit_s = 10;   // of CPU time, one instance
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;
};

// kProved: every instance is. kRefuted: one is, or the right side cannot be built where the left one can.
struct RuleVerdict {
  Verdict verdict = Verdict::kUnknown;
  RuleClass rule_class = RuleClass::kReassociating;
  DomainLimits limits;
  int instances = 0;    // proved
  std::string domain;   // in words
  std::string reason;   // of a verdict other than proved, with the instance
  std::string witness;  // of kRefuted: sizes and values at which the rule is false
  double cpu_ms = 0;
};

RuleVerdict ProveRule(const Rule& rule, const RuleProofOptions& options);

// The record of a rule that is proved.
ProofRecord RecordOf(const Rule& rule, const RuleVerdict& verdict);

// The rule's conditions, as they stand in its text; empty where there are none.
std::string ConditionsText(const Rule& rule);

}  // namespace rewright
