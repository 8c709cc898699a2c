// Mutants of rules: copies changed at one place. A mutant of a true rule is mostly false, so mutants test every check
// that accepts rules.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "substitutions/instance/instance.h"
#include "substitutions/language/rule.h"
#include "tests/support/recorded_list.h"

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

// A mutant of a list of rules: number `number` of the rule at `place`. Its draws follow from the rule's name and the
// numbers alone, so that mutants stay as they are when rules join the list.
struct MutantCase {
  size_t place = 0;
  std::string name;
  MutationRng rng;
};
// A day's part of `whole` mutants of rules of these names, as many of each rule as of any other. On kOneDay for tests
// in which some mutants take minutes, since Z3 does not always count its work.
inline constexpr size_t kOneDay = 20785;
std::vector<MutantCase> MutantsOf(size_t day, const std::vector<std::string>& names, int whole, uint64_t seed);

// Rules changed at one place. The prover must not accept those whose sides the interpreter distinguishes.
struct JudgedMutants {
  std::vector<std::string> false_proofs;  // proved and told apart by the interpreter
  Findings findings;  // "proved" or "open", with the change; "none" where no rule came of it; "" where told apart
};
// Tests today's part of `whole` mutants, each at its first `instances` instances; prints how many are of which kind.
JudgedMutants JudgeMutants(const std::vector<Rule>& rules, int whole, size_t instances, uint64_t seed);
// Does the same for proved instances of which a declaration is changed.
JudgedMutants JudgeDeclarationMutants(const std::vector<RuleInstance>& instances, int whole, uint64_t seed);

}  // namespace rewright
