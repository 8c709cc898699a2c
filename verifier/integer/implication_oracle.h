// Answers questions of index arithmetic that need a solver. `smt/solver.h` asks Z3; this folder knows no solver.
#pragma once

#include <vector>

#include "verifier/integer/guard.h"
#include "verifier/integer/polynomial.h"

namespace rewright::verifier {

class ImplicationOracle {
 public:
  virtual ~ImplicationOracle() = default;
  // The facts imply the goal; false where that is not found. The ranges of `hidden` variables are not assumed; those of
  // all others are. `tag` is the purpose of the question (SmtQuery::purpose).
  virtual bool Implies(const std::vector<Guard>& facts, const Guard& goal, const std::vector<Var>& hidden,
                       const char* tag) = 0;
};

}  // namespace rewright::verifier
