// Counts of checked steps, and the questions that settled them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "verifier/integer/law.h"
#include "verifier/integer/smt_query.h"

namespace rewright {

// Steps of one law.
struct LawSteps {
  int64_t steps = 0;
  int64_t by_text = 0, by_question = 0, by_value = 0;  // as in CheckedSteps
  int64_t open = 0;
  int64_t excused = 0;  // of the open: wrong as they stand, but about elements of which the checker knows nothing
  int64_t refused = 0;
  int64_t repeated = 0;  // beside the steps: the same text on both sides, or computed before

  void Add(const LawSteps& other);
};

struct CheckedSteps {
  int64_t steps = 0;
  int64_t by_text = 0;                  // nothing was left to ask: equal texts, or bounds (step_bounds.h)
  int64_t by_question = 0;              // settled by solvers, for all sizes
  int64_t by_value = 0;                 // computed on both sides
  int64_t joint = 0;                    // of those: sums that the prover settled by a joint query
  std::map<std::string, int64_t> open;  // by law: no solver answers, or no values were found
  std::map<verifier::Law, LawSteps> by_law;
  std::vector<std::string> refused;  // steps that are wrong
  std::vector<SmtQuery> questions;   // distinct, each found unsatisfiable by Z3

  void Add(const CheckedSteps& other);
  // "5 alike, 2 by 1 questions (0 that cvc5 leaves open), 3 by values, 0 refused, open: none; 0 joint queries"
  std::string Summary(int64_t open_to_cvc5) const;
};

}  // namespace rewright
