// Equality of normal forms under facts.
//
// Terms are grouped by the skeletons of their atoms and aligned by changes of variables; one query per class of equal
// products asks if the guards' coefficients cancel. The remaining terms go to one joint query in which reads and
// products are uninterpreted. Maxima over ranges are equal when each family covers the other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/normal_form/term.h"
#include "verifier/smt/solver.h"

namespace rewright::verifier {

class Prover {
 public:
  // `depth`: of the closures in which the forms lie.
  Prover(Context& ctx, Solver& solver, std::vector<Guard> facts, int depth = 0);
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;

  bool Holds(const Guard& goal, const char* tag);
  // True if the normal form is 0 wherever the facts hold. `classes` gets the classes that show it
  // (ProofObserver::Zero).
  bool IsZero(const NormalForm& difference, std::vector<std::vector<MovedTerm>>* classes = nullptr);
  // The maxima over the two unions of families are equal.
  bool EqualMaxima(const std::vector<Family>& a, const std::vector<Family>& b);
  // Two sums ("sum"), maxima ("max") or other binders with one family are equal under the facts and `path`.
  bool EqualClosures(const std::string& kind, const std::vector<Family>& a, const std::vector<Family>& b,
                     const Guard& path);

 private:
  bool Covers(const std::vector<Family>& a, const std::vector<Family>& b);
  void Candidates(const Family& point, const Family& family, std::vector<std::pair<Guard, NormalForm>>* out);
  bool JointlyZero(const NormalForm& terms);
  void Trace(const char* what, const Substitution& s);
  // A change of the variables of `t` to those of `anchor`, for a certificate; gives its inverse.
  Substitution TraceChange(const char* what, const Substitution& s, const Term& t, const Term& anchor);

  Context& ctx_;
  Solver& solver_;
  std::vector<Guard> facts_;
  int depth_;
  ClosureEquality closures_;  // EqualClosures; empty where closures lie too deep
};

}  // namespace rewright::verifier
