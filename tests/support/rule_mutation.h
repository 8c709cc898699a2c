// Mutants of rules: copies changed at one place. A mutant of a true rule is mostly false, so mutants test every check
// that accepts rules.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "substitutions/instance/instance.h"
#include "substitutions/language/rule.h"

namespace rewright {

using MutationRng = std::mt19937_64;

struct Mutant {
  Rule rule;
  std::string change;  // the kind (operator, operand, attribute, size, guard, outputs) and the change
};

// Changes the text of the rule: an operator for one of its kind, an operand, an attribute, a size, a condition. The
// mutant need not compile. Nothing where no place for a change was found.
std::optional<Mutant> MutateRule(const Rule& rule, MutationRng& rng);

// Changes an index, a bound, a guard or a function in one declaration that the right side uses. False if no place was
// found.
bool MutateDeclaration(const RuleInstance& instance, MutationRng& rng, RuleInstance* mutant);

// Tests rules changed at one place: the prover must not accept those whose sides the interpreter distinguishes.
struct MutantCounts {
  int refuted = 0;                        // told apart by the interpreter
  int open = 0;                           // neither told apart nor proved
  int equivalent = 0;                     // proved and not told apart
  std::vector<std::string> false_proofs;  // proved and told apart
};
// Tests `wanted` mutants that are refuted or open, of rules drawn at random; prints the counts.
MutantCounts JudgeMutants(const std::vector<Rule>& rules, int wanted, uint64_t seed);
// Does the same for proved instances of which a declaration is changed.
MutantCounts JudgeDeclarationMutants(const std::vector<RuleInstance>& instances, int wanted, uint64_t seed);

}  // namespace rewright
