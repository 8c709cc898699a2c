// Questions to Z3. Every question is quantifier-free: facts and the negation of a goal must be unsatisfiable.
//
// Non-linear index arithmetic is first abstracted: each product of variables is a fresh integer, helped by instances of
// lemmas that hold for all integers (sign, monotonicity, Euclid); only then native non-linear arithmetic is tried.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/integer/guard.h"
#include "verifier/integer/implication_oracle.h"
#include "verifier/integer/polynomial.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// Proves two closures equal where `path` holds: sums ("sum"), maxima ("max") or other binders over families. Empty:
// nothing is proved.
using ClosureEquality = std::function<bool(const std::string& kind, const std::vector<Family>& a,
                                           const std::vector<Family>& b, const Guard& path)>;

// Shared by the proofs of a rule's instances: Z3's context, which takes milliseconds to set up, and the
// answers to queries, which strategies and instances repeat. Not thread-safe.
class QueryCache {
 public:
  QueryCache();
  ~QueryCache();

 private:
  friend class Solver;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class Solver final : public ImplicationOracle {
 public:
  // Becomes the oracle of the context, which must not be asked after the solver is gone.
  explicit Solver(Context* ctx);
  ~Solver() override;
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  bool Implies(const std::vector<Guard>& facts, const Guard& goal, const std::vector<Var>& hidden,
               const char* tag) override;
  // sum_j coef_j * [guard_j] = 0 for all values of the variables.
  bool CoefficientsCancel(const std::vector<Guard>& facts, const NormalForm& terms);
  // The normal form is 0: reads and products are uninterpreted, max of finitely many is interpreted, sums and maxima
  // over ranges are closures, about whose equality `equal_closures` is asked.
  bool IsZero(const std::vector<Guard>& facts, const NormalForm& n, const ClosureEquality& equal_closures);
  // Where `guard` holds, one of the candidates' guards holds and its value equals `body`.
  bool IsCovered(const std::vector<Guard>& facts, const Guard& guard, const NormalForm& body,
                 const std::vector<std::pair<Guard, NormalForm>>& candidates, const ClosureEquality& equal_closures);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewright::verifier
