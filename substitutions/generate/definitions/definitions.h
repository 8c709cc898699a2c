// Makes rules of operators' own definitions. There is no search: the meanings give them (parts.h).
//
//   parts => operator            in each form in which the parts are written down (forms.h)
//   operator => scale and shift  if the result is operand 0 times a factor plus a summand, both of weights: these are
//                                computed once, when a model is loaded, which leaves a product and a sum
//
// Axes that are treated alike, and that nothing reduces over, become any number of axes (`b..`) as far as that is
// proved. Every rule that is stated is proved by the verifier.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "substitutions/language/rule.h"

namespace rewright::generate {

struct DefinitionOptions {
  double rule_limit_s = 1;  // seconds of work for a proof (core/base/work.h)
  uint64_t seed = 1;
  std::function<bool()> stop;  // asked before each proof
};

struct DefinitionCounts {
  int operators = 0;
  int elementary = 0;  // of them: a function or a reduction of the operands, which defines nothing
  int unread = 0;      // of them: whose meaning is no graph of simpler operators
  int stated = 0;      // rules; below their fates
  int proved = 0, derivable = 0, refuted = 0, unknown = 0;
};

struct DefinitionRules {
  DefinitionCounts counts;
  std::vector<Rule> rules;                // with names and proofs
  std::vector<std::string> explanations;  // of operators that are not read, and of rules that are dropped
  bool complete = true;                   // false: stopped
};

// Names begin with "definitions-". Errors: of records.
absl::StatusOr<DefinitionRules> RulesOfDefinitions(const std::vector<const OpDef*>& operators,
                                                   const DefinitionOptions& options);

}  // namespace rewright::generate
